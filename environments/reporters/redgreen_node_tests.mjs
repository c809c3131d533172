// What node's test runner runs in its child: the oracle's file, and after it two canaries of ours, in the same process
// and by the same runner. One must pass. The other must fail: it tries every way of `node:assert` to find something
// wrong, and throws the run's own words when all of them did. An assertion that was taken out, and a process that left
// before its end, show. Names and words are new in each run; the file that holds them is gone before the tests load.
import * as namespace from 'node:assert'
import { createRequire, Module } from 'node:module'
import { readFileSync, rmdirSync, unlinkSync } from 'node:fs'
import { dirname, extname } from 'node:path'
import { pathToFileURL } from 'node:url'
import test from 'node:test'

const file = process.env.REDGREEN_TESTS
delete process.env.REDGREEN_TESTS
const { test: path, pass, fail, failure, order } = JSON.parse(readFileSync(file, 'utf8'))
unlinkSync(file)
rmdirSync(dirname(file))

const AssertionError = namespace.AssertionError
const required = createRequire(import.meta.url)('node:assert')
// With a message of ours the runner need not find one, which costs more than all the rest.
const failing = [
  ['ok', 0, 'no'],
  ['equal', 1, 2, 'no'],
  ['notEqual', 1, 1, 'no'],
  ['strictEqual', 1, 2, 'no'],
  ['notStrictEqual', 1, 1, 'no'],
  ['deepEqual', { a: 1 }, { a: 2 }, 'no'],
  ['notDeepEqual', { a: 1 }, { a: 1 }, 'no'],
  ['deepStrictEqual', { a: 1 }, { a: 2 }, 'no'],
  ['notDeepStrictEqual', { a: 1 }, { a: 1 }, 'no'],
  ['match', 'a', /b/, 'no'],
  ['doesNotMatch', 'a', /a/, 'no'],
  ['throws', () => {}],
  ['doesNotThrow', () => { throw new Error('') }],
  ['ifError', 1],
  ['fail', 'no']
]
const failingLater = [
  ['rejects', async () => {}],
  ['doesNotReject', async () => { throw new Error('') }]
]

async function fails (way) {
  try {
    await way()
  } catch (error) {
    return error instanceof AssertionError
  }
  return false
}

// The names of the assertions that let something wrong go by. Test files get them in any of these ways.
async function idle (context) {
  const found = new Set()
  for (const assert of [required, required.strict, namespace, namespace.default, context.assert]) {
    if (assert === undefined) continue
    if (typeof assert === 'function' && !await fails(() => assert(0, 'no'))) found.add('assert')
    for (const [name, ...values] of [...failing, ...failingLater]) {
      // Before Node 22 a context has no `assert`, and not all names are in all of them.
      if (assert === context.assert && assert[name] === undefined) continue
      if (!await fails(() => assert[name](...values))) found.add(name)
    }
  }
  return [...found]
}

const canaries = [
  [pass, () => { required.strictEqual(1, 1) }],
  [fail, async (context) => {
    const names = await idle(context)
    if (names.length === 0) throw new AssertionError({ message: failure })
    throw new Error(`it does not fail any more: ${names.join(', ')}`)
  }]
]
if (order === 1) canaries.reverse()

// As if the file had been started by itself: CommonJS sees itself as the main module.
process.argv[1] = path
if (extname(path) !== '.mjs') {
  try {
    Module._load(path, null, true)
  } catch (error) {
    if (error?.code !== 'ERR_REQUIRE_ESM' && error?.code !== 'ERR_REQUIRE_ASYNC_MODULE') throw error
  }
}
// A module of the newer kind is loaded, and waited for, here; one that is there is not loaded again.
await import(pathToFileURL(path))
// The runner lets a `todo` fail without a mark on the exit code, which stays that of the oracle's tests.
for (const [name, body] of canaries) test(name, { todo: true }, body)
