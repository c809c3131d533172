// A reporter for node's own test runner (`node --test --test-reporter=…`, Node 18.15 and later).
//
// It lives in the runner's process, while the tests run in a child of it that does not inherit the descriptor. One
// JSON object a line goes to the descriptor that REDGREEN_RESULT_FD names: `start`, a `test` for every test,
// `collect-error` or `crashed` where the test file itself broke, `end`. An AssertionError is `failed`, anything else
// is `errored`.
import { writeSync } from 'node:fs'
import { resolve } from 'node:path'

const descriptor = Number(process.env.REDGREEN_RESULT_FD)
delete process.env.REDGREEN_RESULT_FD

let count = 0

function send (event, fields = {}) {
  if (event === 'test') count += 1
  let left = Buffer.from(JSON.stringify({ event, ...fields }) + '\n')
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

export default async function * (source) {
  send('start', { framework: 'node', version: process.versions.node })
  const files = new Set(process.argv.slice(1).map((name) => resolve(name)))
  const path = [] // names of the enclosing suites, by nesting
  const seen = new Map()
  let errors = ''
  for await (const { type, data } of source) {
    if (type === 'test:stderr') {
      errors = (errors + data.message).slice(-20000)
      yield data.message
    } else if (type === 'test:stdout') {
      yield data.message
    } else if (type === 'test:start') {
      path.length = data.nesting
      path[data.nesting] = data.name
    } else if (type === 'test:pass' || type === 'test:fail') {
      const error = data.details?.error
      const isFile = data.nesting === 0 && files.has(resolve(data.name))
      if (isFile) {
        if (type === 'test:fail' && error?.failureType !== 'subtestsFailed') {
          const signal = error?.signal
          if (signal) send('crashed', { signal })
          else send('collect-error', loadError(errors, error?.exitCode))
        }
        continue
      }
      // A suite is no test: it passes with nothing but skipped tests in it.
      const isSuite = data.details?.type === 'suite'
      if (isSuite && (type === 'test:pass' || error?.failureType === 'subtestsFailed')) continue
      const name = path.slice(0, data.nesting).concat(data.name).filter((part) => !files.has(resolve(part))).join(' > ')
      const times = (seen.get(name) ?? 0) + 1
      seen.set(name, times)
      const id = times === 1 ? name : `${name} (${times})`
      if (data.skip !== undefined && data.skip !== false) send('test', { id, status: 'skipped' })
      else if (data.todo !== undefined && data.todo !== false) send('test', { id, status: type === 'test:pass' ? 'xpass' : 'xfail' })
      else if (type === 'test:pass') send('test', { id, status: 'passed' })
      else send('test', { id, ...describe(error) })
      yield `${type === 'test:pass' ? 'ok' : 'not ok'} - ${id}\n`
      if (type === 'test:fail') yield `  ${firstLine(thrown(error)?.message)}\n`
    }
  }
  send('end', { tests: count })
}
