// What a Node project declares: `node -e … TREE`, prints one JSON object. Reads package.json alone.
"use strict";
const fs = require("fs"), path = require("path");
const [tree] = process.argv.slice(1);
const notes = [];
const packages = [];
let manifest = {};
try {
  const file = path.join(tree, "package.json");
  if (fs.lstatSync(file).isFile()) manifest = JSON.parse(fs.readFileSync(file, "utf8").replace(/^\uFEFF/, ""));
} catch (error) {
  notes.push(`package.json can't be read: ${error.message}`);
}
const names = new Set();
for (const key of ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"]) {
  const wanted = manifest[key];
  if (!wanted || typeof wanted !== "object" || Array.isArray(wanted)) continue;
  for (const [name, range] of Object.entries(wanted)) {
    if (names.has(name) || typeof range !== "string" || !/^(@[a-z0-9-~][a-z0-9-._~]*\/)?[a-z0-9-~][a-z0-9-._~]*$/i.test(name)) continue;
    names.add(name);
    if (/^(file|link|workspace|portal|catalog):/.test(range)) notes.push(`\`${name}\` (${range}) is left out`);
    else if (/^npm:/.test(range)) packages.push(`${name}@${range}`);
    else if (/[/:]/.test(range)) {
      notes.push(`\`${name}\` is taken from the registry instead of ${range}`);
      packages.push(name);
    } else packages.push(range.trim() === "" ? name : `${name}@${range.trim()}`);
  }
}
console.log(JSON.stringify({ packages, notes }));
