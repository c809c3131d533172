//! Whether a generated Python test can only have looked at text: it imports nothing but the standard library and
//! pytest, and reads files of the workspace.

/// Top-level modules of Python's standard library that tests use, and pytest itself. Modules that can load other code
/// (`importlib`, `runpy`, `subprocess`, `imp`) are not among them on purpose.
const HARMLESS: &[&str] = &[
    "__future__",
    "abc",
    "argparse",
    "array",
    "ast",
    "base64",
    "bisect",
    "builtins",
    "bz2",
    "calendar",
    "codecs",
    "collections",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "dis",
    "enum",
    "errno",
    "fnmatch",
    "fractions",
    "functools",
    "gc",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "html",
    "http",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "locale",
    "logging",
    "math",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "pprint",
    "pytest",
    "queue",
    "random",
    "re",
    "shlex",
    "shutil",
    "signal",
    "socket",
    "stat",
    "string",
    "struct",
    "sys",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "token",
    "tokenize",
    "tomllib",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib",
    "uuid",
    "warnings",
    "weakref",
    "xml",
    "zipfile",
    "zlib",
];

/// Words with which a test can run code without an import statement.
const LOADERS: &[&str] = &["__import__", "exec(", "eval(", "os.system", "os.popen"];

/// Whether a Python test is text only, judged by its text alone.
pub fn is_text_only(code: &str) -> bool {
    let bare = without_strings(code);
    code.contains("/workspace")
        && !LOADERS.iter().any(|word| bare.contains(word))
        && bare.lines().all(|line| imports_of(line).into_iter().all(|module| HARMLESS.contains(&module)))
}

/// Python code with the insides of its strings and comments left out: a test that looks for `import x` in a file does
/// not import it.
fn without_strings(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
            continue;
        }
        if first != '"' && first != '\'' {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let triple = rest.chars().take_while(|c| *c == first).count() >= 3;
        let quote = &rest[..if triple { 3 } else { 1 }];
        rest = &rest[quote.len()..];
        out.push_str("\"\"");
        while let Some(character) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix(quote) {
                rest = after;
                break;
            }
            // A string in single quotes ends with its line, whatever is wrong with it.
            if character == '\n' && !triple {
                break;
            }
            rest = &rest[character.len_utf8()..];
            if character == '\\' {
                rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
            }
        }
    }
    out
}

/// The top-level modules that one line imports.
fn imports_of(line: &str) -> Vec<&str> {
    let root = |module: &str| -> Option<usize> { module.find(|c: char| !(c.is_alphanumeric() || c == '_')) };
    let top = |module| -> &str {
        let module: &str = str::trim(module);
        &module[..root(module).unwrap_or(module.len())]
    };
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("import ") {
        return rest.split(',').map(top).collect();
    }
    match line.strip_prefix("from ") {
        // `yield from x` on a line of its own has no `import`.
        Some(rest) if rest.contains(" import ") => vec![top(rest)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_that_never_load_the_project_are_text_only() {
        let reads = "import re, os\nfrom pathlib import Path\ndef test():\n    assert 'x' in Path('/workspace/a.py').read_text()\n";
        assert!(is_text_only(reads));
        for line in [
            "    # import nothing",
            "'''\nimport project\n'''",
            "    assert 'from . import x' in text",
            r"x = 'it\'s exec('",
            "x = ''",
        ] {
            assert!(is_text_only(&format!("{reads}{line}\n")), "{line}");
        }
        for line in [
            "import numpy",
            "import os, project",
            "    from project.sub import x",
            "m = __import__('project')",
            "exec(open('/workspace/a.py').read())",
            "import importlib.util",
            "from . import x",
        ] {
            assert!(!is_text_only(&format!("{reads}\n{line}\n")), "{line}");
        }
        assert!(!is_text_only("import re\ndef test():\n    assert re\n"), "it reads no file of the workspace");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_judged(code in "(import |from |'|\"|\"\"\"|#|\\\\|\n|é|a|\\.){0,40}") {
            let _ = is_text_only(&format!("/workspace{code}"));
        }
    }
}
