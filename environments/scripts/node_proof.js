// Whether a Node environment works: `node -e … CHECK TREE`, the last line is one JSON object.
"use strict";
const fs = require("fs"), path = require("path"), url = require("url");
const { spawnSync } = require("child_process");
const [check, tree] = process.argv.slice(1);
const SAMPLED_FILES = 8, MOST_IDS = 200, SECONDS = 150;

function answer(ok, detail, more = {}) {
  detail = String(detail).replace(/\s+/g, " ").slice(0, 300);
  fs.writeSync(1, "\n" + JSON.stringify({ ok: Boolean(ok), detail, ...more }) + "\n");
  process.exit(0);
}

function manifestOf(folder) {
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8").replace(/^\uFEFF/, ""));
  } catch {
    return {};
  }
}

const manifest = manifestOf(tree);
const modules = path.join(tree, "node_modules");

// npm's own reading of ranges, where npm is there.
function semver() {
  const places = [
    path.resolve(path.dirname(process.execPath), "../lib/node_modules/npm/node_modules/semver"),
    "/usr/local/lib/node_modules/npm/node_modules/semver", "/usr/lib/node_modules/npm/node_modules/semver",
    "/usr/share/nodejs/semver", path.join(modules, "semver"),
  ];
  for (const place of places) {
    try {
      return require(place);
    } catch {
      continue;
    }
  }
  return null;
}

function install() {
  const ranges = semver(), problems = [];
  let seen = 0;
  const optional = new Set(Object.keys(manifest.optionalDependencies || {}));
  for (const key of ["dependencies", "devDependencies"]) {
    for (const [name, range] of Object.entries(manifest[key] || {})) {
      if (optional.has(name) || /^(workspace|link|file|portal|catalog):/.test(range)) continue;
      seen += 1;
      const { version } = manifestOf(path.join(modules, name));
      if (!version) problems.push(`${name} is not installed`);
      else if (ranges && ranges.validRange(range) && !ranges.satisfies(version, range, { includePrerelease: true })) {
        problems.push(`${name}@${range} is wanted, but ${version} is installed`);
      }
    }
  }
  answer(problems.length === 0, problems.slice(0, 8).join("; ") || `${seen} declared dependencies are there`, { problems });
}

function entry() {
  const pick = (value) => {
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return value.map(pick).find(Boolean);
    if (value && typeof value === "object") {
      if ("." in value) return pick(value["."]);
      for (const key of ["node", "import", "module-sync", "require", "default"]) {
        const found = key in value && pick(value[key]);
        if (found) return found;
      }
    }
    return undefined;
  };
  const named = pick(manifest.exports) || manifest.main || manifest.module;
  if (named) return named;
  return fs.existsSync(path.join(tree, "index.js")) ? "index.js" : undefined;
}

function load() {
  const named = entry();
  if (!named) answer(true, "the package has no entry to load");
  let place;
  try {
    place = require.resolve(path.resolve(tree, named));
  } catch {
    place = path.resolve(tree, named);
  }
  if (!fs.existsSync(place)) answer(false, `the package's entry ${named} is not there: it is not built`);
  if (/\.(d\.ts|css|json|tsx?|jsx)$/.test(place)) answer(true, `the package's entry ${named} is no module for node`);
  const code = `import(${JSON.stringify(url.pathToFileURL(place).href)}).then(() => process.exit(0), (e) => { console.error(e); process.exit(1); })`;
  const ran = spawnSync(process.execPath, ["-e", code], { cwd: "/", timeout: 60000, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  if (ran.status === 0) answer(true, `${named} loads`);
  process.stderr.write(String(ran.stderr).slice(-4000));
  const line = String(ran.stderr).split("\n").find((l) => /Error/.test(l)) || `exit code ${ran.status}`;
  // What only works in a browser says so by what it misses.
  if (/(window|document|navigator|self) is not defined/.test(line)) answer(true, `${named} is for browsers: ${line}`);
  answer(false, `${named}: ${line}`);
}

function testFiles() {
  const found = [];
  const walk = (folder, below) => {
    for (const item of fs.readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      if (item.name.startsWith(".") || ["node_modules", "dist", "build", "coverage", "fixtures", "__fixtures__", "__snapshots__"].includes(item.name)) continue;
      const place = path.join(folder, item.name);
      const tests = below || /^(tests?|__tests__|spec)$/.test(item.name);
      if (item.isDirectory()) walk(place, tests);
      else if (item.isFile() && (/[.\-_](test|spec)\.[cm]?[jt]sx?$/.test(item.name) || /^test\.[cm]?js$/.test(item.name) || (below && /\.[cm]?[jt]sx?$/.test(item.name) && !/\.d\.ts$/.test(item.name)))) {
        found.push(path.relative(tree, place));
      }
    }
  };
  walk(tree, false);
  // Helpers of tests say no test.
  return found.filter((file) => {
    const text = fs.readFileSync(path.join(tree, file), "utf8");
    return /\b(test|it|describe|t\.test|tap\.test|suite)\s*[.(]|require\(['"](tap|tape|ava|node:test|assert)|from ['"](tap|tape|ava|node:test|vitest)/.test(text);
  });
}

function spread(items, most) {
  return items.length <= most ? items : Array.from({ length: most }, (_, i) => items[Math.floor((i * items.length) / most)]);
}

function framework() {
  const script = Object.entries(manifest.scripts || {}).filter(([name]) => /^(test|unit|spec)/.test(name)).map(([, text]) => text).join(" ; ");
  const declared = { ...manifest.dependencies, ...manifest.devDependencies };
  for (const name of ["vitest", "jest", "mocha", "ava", "jasmine", "tap", "tape"]) {
    if (new RegExp(`(^|[\\s;&|/"'])${name}(\\s|$|["';&|])`).test(script)) return name;
  }
  if (/node\s[^;&|]*--test/.test(script)) return "node";
  for (const name of ["vitest", "jest", "mocha", "ava", "tap", "tape"]) if (declared[name]) return name;
  return "node";
}

function run(argv, seconds, extra = {}) {
  const ran = spawnSync(argv[0], argv.slice(1), {
    cwd: tree, timeout: seconds * 1000, killSignal: "SIGKILL", encoding: "utf8", maxBuffer: 64 << 20,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, CI: "true", FORCE_COLOR: "0", NO_COLOR: "1", NODE_ENV: "test", ...extra },
  });
  return { code: ran.status, out: String(ran.stdout || ""), err: String(ran.stderr || ""), timedOut: Boolean(ran.error && ran.error.code === "ETIMEDOUT") };
}

function program(name) {
  const place = path.join(modules, ".bin", name);
  return fs.existsSync(place) ? place : null;
}

function decisive(ran) {
  const lines = (ran.err + "\n" + ran.out).split("\n").map((l) => l.trim()).filter(Boolean);
  return lines.find((l) => /Error|not found|failed/i.test(l)) || lines[lines.length - 1] || `exit code ${ran.code}`;
}

function json(text) {
  const start = text.indexOf("{");
  try {
    return JSON.parse(text.slice(start, text.lastIndexOf("}") + 1));
  } catch {
    return null;
  }
}

// Tests of a TAP stream's outermost level, with the file that they are from.
function tap(text, file) {
  const passed = [], failed = [];
  for (const line of text.split("\n")) {
    const found = /^(not )?ok (\d+)(?: -)?\s*(.*)$/.exec(line);
    if (!found || /#\s*(skip|todo)/i.test(found[3])) continue;
    (found[1] ? failed : passed).push(`${file}: ${found[3].replace(/\s*#\s*time=.*$/, "").trim() || found[2]}`);
  }
  return { passed, failed };
}

function collect() {
  const files = testFiles(), name = framework();
  if (name !== "node" && !program(name) && !["tap", "tape"].includes(name)) {
    answer(false, `the test framework is not there: ${name}: not found`);
  }
  if (["tap", "tape"].includes(name) && !fs.existsSync(path.join(modules, name))) {
    answer(false, `the test framework is not there: ${name}: not found`);
  }
  const lists = { jest: ["--listTests"], vitest: ["list", "--filesOnly"], mocha: ["--dry-run", "--reporter", "json"] };
  if (lists[name]) {
    const ran = run([program(name), ...lists[name]], SECONDS);
    if (ran.timedOut) answer(false, `${name} did not end within ${SECONDS} s`);
    const report = name === "mocha" && json(ran.out);
    const count = report ? report.stats.tests : ran.out.split("\n").filter((l) => /\.[cm]?[jt]sx?\b/.test(l)).length;
    // An old mocha has no dry run, and an old vitest no list.
    const unknown = /unknown (option|command)|Unknown option|No test files found/i.test(ran.err + ran.out);
    if (ran.code !== 0 && !unknown && count === 0) answer(false, `${name}: ${decisive(ran)}`, { collected: 0 });
    if (count > 0) answer(true, `${count} ${report ? "tests" : "files of tests"}, by ${name}`, { collected: count });
  }
  if (files.length === 0) answer(true, "the project has no tests of its own", { collected: 0 });
  answer(true, `${files.length} files of tests, for ${name}`, { collected: files.length });
}

function sample() {
  const files = spread(testFiles(), SAMPLED_FILES), name = framework();
  if (files.length === 0) answer(true, "the project has no tests of its own", { passed: [], failed: [] });
  let passed = [], failed = [], last = null;
  const seconds = Math.floor(SECONDS / files.length);
  const began = Date.now();
  for (const file of files) {
    if (Date.now() - began > SECONDS * 1000 || passed.length + failed.length >= MOST_IDS) break;
    let ran, found;
    if (name === "jest" || name === "vitest") {
      const argv = name === "jest"
        ? ["--ci", "--json", "--coverage=false", "--runTestsByPath", file]
        : ["run", "--reporter=json", file];
      ran = run([program(name), ...argv], Math.max(seconds, 30));
      const report = json(ran.out);
      const tests = report ? (report.testResults || []).flatMap((r) => r.assertionResults || []) : [];
      const ids = (status) => tests.filter((t) => t.status === status).map((t) => `${file}: ${t.fullName}`);
      found = { passed: ids("passed"), failed: ids("failed") };
    } else if (name === "mocha") {
      ran = run([program("mocha"), "--reporter", "json", file], Math.max(seconds, 30));
      const report = json(ran.out) || { passes: [], failures: [] };
      found = { passed: report.passes.map((t) => `${file}: ${t.fullTitle}`), failed: report.failures.map((t) => `${file}: ${t.fullTitle}`) };
    } else if (name === "ava") {
      ran = run([program("ava"), "--tap", file], Math.max(seconds, 30));
      found = tap(ran.out, file);
    } else if (name === "tap" || name === "tape") {
      ran = run([process.execPath, file], Math.max(seconds, 30));
      found = tap(ran.out, file);
    } else if (name === "node") {
      ran = run([process.execPath, "--test", "--test-reporter=tap", file], Math.max(seconds, 30));
      found = tap(ran.out, file);
    } else {
      ran = run([program(name), file], Math.max(seconds, 30));
      found = ran.code === 0 ? { passed: [file], failed: [] } : { passed: [], failed: [file] };
    }
    if (found.passed.length + found.failed.length === 0) {
      // Nothing that can be read: the exit code is all there is, and a zero alone is no pass of a test.
      last = decisive(ran);
      if (ran.code !== 0) found.failed.push(file);
    }
    if (found.failed.length > 0) process.stdout.write((ran.err + ran.out).slice(-3000));
    passed = passed.concat(found.passed);
    failed = failed.concat(found.failed);
  }
  passed = [...new Set(passed)].sort().slice(0, MOST_IDS);
  failed = [...new Set(failed)].sort().slice(0, MOST_IDS);
  const detail = `${passed.length} of ${passed.length + failed.length} sampled tests pass, by ${name}`;
  answer(passed.length > 0 && passed.length >= failed.length, passed.length ? detail : `${detail}: ${last || "no test ran"}`, { passed, failed });
}

({ install, import: load, collect, sample })[check]();
