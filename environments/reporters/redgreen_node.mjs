// Runs one test file with node's own test runner and reports every test to an inherited descriptor.
//
// Usage: node redgreen_node.mjs TEST_FILE        (Node 18.15 and later)
//
// The tests run in a child of this process, which inherits neither the descriptor nor the token. The channel is what
// REDGREEN_RESULT_FD names; the first line to be read from it (or from what REDGREEN_TOKEN_FD names, where that is set) is
// the run's token, and each event goes out as one line: a seal (half an HMAC-SHA256 of the rest under the token), a running
// number, a JSON object. Events: `start`, a `test` for every test, `collect-error` or
// `crashed` where the test file itself broke, two `canary`s after the tests (see `redgreen_node_tests.mjs`), `end`. An
// AssertionError is `failed`, anything else is `errored`.
import { createHmac, randomBytes, randomInt } from 'node:crypto'
import { closeSync, mkdtempSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { run } from 'node:test'
import { fileURLToPath } from 'node:url'

const descriptor = Number(process.env.REDGREEN_RESULT_FD)
const source = Number(process.env.REDGREEN_TOKEN_FD ?? descriptor)
delete process.env.REDGREEN_RESULT_FD
delete process.env.REDGREEN_TOKEN_FD
const token = readToken()

function readToken () {
  let text = ''
  while (!text.endsWith('\n')) {
    const part = Buffer.alloc(256)
    const length = readSync(source, part)
    if (length === 0) throw new Error('the result channel has no token')
    text += part.toString('latin1', 0, length)
  }
  if (source !== descriptor) closeSync(source)
  return text.trim()
}

let events = 0
let tests = 0

function send (event, fields = {}) {
  if (event === 'test') tests += 1
  const body = `${events} ${JSON.stringify({ event, ...fields })}`
  const seal = createHmac('sha256', token).update(body).digest('hex').slice(0, 32)
  let left = Buffer.from(`${seal} ${body}\n`)
  events += 1
  while (left.length > 0) left = left.subarray(writeSync(descriptor, left))
}

// The first line; and the next that says something where the first only announces it.
function firstLine (text) {
  const lines = String(text ?? '').split('\n').map((line) => line.trim()).filter((line) => line !== '')
  const first = lines[0] ?? ''
  return (first.endsWith(':') && lines.length > 1 ? `${first} ${lines[1]}` : first).slice(0, 2000)
}

// The runner wraps what a test threw; a failed hook may be wrapped twice.
function thrown (error) {
  let inner = error
  while (inner?.code === 'ERR_TEST_FAILURE' && inner.cause !== undefined && inner.cause !== null) inner = inner.cause
  return inner
}

function describe (error) {
  const inner = thrown(error)
  const message = firstLine(inner?.message ?? inner)
  if (error?.failureType === 'subtestsFailed') return { status: 'failed', message }
  const exception = inner?.name ?? typeof inner
  if (inner?.code === 'ERR_ASSERTION' || exception === 'AssertionError') return { status: 'failed', exception, message }
  return { status: 'errored', kind: kindOf(exception, inner?.code), exception, message }
}

function kindOf (exception, code) {
  if (exception === 'SyntaxError') return 'syntax'
  return /MODULE_NOT_FOUND|ERR_PACKAGE_PATH_NOT_EXPORTED/.test(String(code)) ? 'import' : 'exception'
}

// Why the process of a test file left: what it printed tells, where it was an exception while the file was loaded.
function loadError (text, exit) {
  const line = text.split('\n').find((line) => /^[\w$.]*(?:Error|Exception)\b/.test(line))
  if (line === undefined) return { kind: 'runner', message: `the test file's process left with exit code ${exit}` }
  const exception = /^[\w$.]+/.exec(line)[0]
  return { kind: exception === 'SyntaxError' ? 'syntax' : 'import', exception, message: firstLine(line) }
}

// What the child must know and nobody after it: which file, and the canaries. It reads this file and removes it before
// it loads the tests.
function handOver (test) {
  const canaries = { failure: randomBytes(12).toString('hex'), order: randomInt(2) }
  for (const role of ['pass', 'fail']) canaries[role] = `${role === 'pass' ? 'of' : 'on'} ${randomBytes(6).toString('hex')}`
  if (randomInt(2)) [canaries.pass, canaries.fail] = [canaries.fail, canaries.pass]
  const file = join(mkdtempSync(join(tmpdir(), 'redgreen-')), 'tests')
  writeFileSync(file, JSON.stringify({ test, ...canaries }))
  return { file, canaries }
}

function canaryEvent (role, type, data, failure) {
  if (type === 'test:pass') return { role, status: data.skip ? 'skipped' : 'passed' }
  const { status, message } = describe(data.details?.error)
  const own = message === failure
  return { role, status: role === 'fail' && !own ? 'errored' : status, ...(own ? {} : { message }) }
}

async function main (test) {
  send('start', { framework: 'node', version: process.versions.node })
  const wrapper = join(dirname(fileURLToPath(import.meta.url)), 'redgreen_node_tests.mjs')
  const { file, canaries } = handOver(test)
  process.env.REDGREEN_TESTS = file
  const files = new Set([wrapper, test])
  const path = [] // names of the enclosing suites, by nesting
  const seen = new Map()
  let errors = ''
  let failed = false
  let fileError
  const isFile = ({ name, nesting }) => nesting === 0 && files.has(resolve(name))
  for await (const { type, data } of run({ files: [wrapper], concurrency: 1 })) {
    if (type === 'test:stderr') {
      errors = (errors + data.message).slice(-20000)
      process.stdout.write(data.message)
    } else if (type === 'test:stdout') {
      process.stdout.write(data.message)
    } else if (type === 'test:start') {
      path.length = data.nesting
      path[data.nesting] = data.name
    }
    // The runner does not call a file failed whose tests (or canary) are; when it is complete it says how it ended.
    if ((type === 'test:complete' || type === 'test:fail') && isFile(data)) fileError = data.details?.error ?? fileError
    if (type === 'test:pass' || type === 'test:fail') {
      const error = data.details?.error
      const role = data.nesting === 0 ? ['pass', 'fail'].find((role) => canaries[role] === data.name) : undefined
      if (role !== undefined) {
        send('canary', canaryEvent(role, type, data, canaries.failure))
        continue
      }
      if (isFile(data)) continue
      const tolerated = data.todo !== undefined && data.todo !== false
      if (type === 'test:fail' && !tolerated) failed = true
      // A suite is no test: it passes with nothing but skipped tests in it.
      const isSuite = data.details?.type === 'suite'
      if (isSuite && (type === 'test:pass' || error?.failureType === 'subtestsFailed')) continue
      const name = path.slice(0, data.nesting).concat(data.name).filter((part) => !files.has(resolve(part))).join(' > ')
      const times = (seen.get(name) ?? 0) + 1
      seen.set(name, times)
      const id = times === 1 ? name : `${name} (${times})`
      if (data.skip !== undefined && data.skip !== false) send('test', { id, status: 'skipped' })
      else if (tolerated) send('test', { id, status: type === 'test:pass' ? 'xpass' : 'xfail' })
      else if (type === 'test:pass') send('test', { id, status: 'passed' })
      else send('test', { id, ...describe(error) })
      process.stdout.write(`${type === 'test:pass' ? 'ok' : 'not ok'} - ${id}\n`)
      if (type === 'test:fail') process.stdout.write(`  ${firstLine(thrown(error)?.message)}\n`)
    }
  }
  if (fileError !== undefined) {
    const { signal, exitCode, failureType } = fileError
    if (signal) send('crashed', { signal })
    else if (failureType !== 'subtestsFailed' || ![undefined, 0, failed ? 1 : 0].includes(exitCode)) {
      failed = true
      send('collect-error', loadError(errors, exitCode))
    }
    failed ||= Boolean(signal)
  }
  send('end', { tests })
  process.exitCode = failed ? 1 : 0
}

await main(resolve(process.argv[2]))
