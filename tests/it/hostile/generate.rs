//! Patches that are too large, or too odd, to stand in a table.

use std::fmt::Write as _;
use std::io::Write as _;

use serde::Deserialize;

/// What there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// The fix, and 100,000 files beside it.
    ManyFiles,
    /// A file below 5,000 folders.
    DeepPath,
    /// A file below folders as deep as a path can name.
    DeepestPath,
    /// The fix, and a file of twenty million bytes in lines.
    LongFile,
    /// The fix, and a file of one line of eight million bytes.
    LongLine,
    /// More bytes than any honest patch has.
    TooLong,
    /// A little patch that makes more zeros than a patch may make.
    Bomb,
    /// Two hundred thousand hunks for one file that has no such lines.
    ManyHunks,
    /// A file of a million lines, and then two hundred thousand hunks that each make room in it.
    SlowHunks,
}

/// The fix of the tables' module, as a patch.
const FIX: &str = "\
diff --git a/clamp.py b/clamp.py
--- a/clamp.py
+++ b/clamp.py
@@ -2,4 +2,4 @@
     \"\"\"The value, or the bound that it is beyond.\"\"\"
     if value < low:
         return low
-    return value
+    return min(value, high)
";

impl Generator {
    pub fn patch(self) -> String {
        match self {
            Self::ManyFiles => {
                let mut patch = FIX.to_owned();
                for number in 0..100_000 {
                    new_file(&mut patch, &format!("many/{}/{number}", number % 300), &["x"]);
                }
                patch
            }
            Self::DeepPath => with_file(&format!("{}leaf", "d/".repeat(5000))),
            Self::DeepestPath => with_file(&format!("{}leaf", "d/".repeat(1400))),
            Self::LongFile => {
                let mut patch = FIX.to_owned();
                new_file(&mut patch, "long", &vec!["twenty bytes a line"; 1_000_000]);
                patch
            }
            Self::LongLine => {
                let mut patch = FIX.to_owned();
                new_file(&mut patch, "long", &[&"x".repeat(8_000_000)]);
                patch
            }
            Self::TooLong => {
                let mut patch = FIX.to_owned();
                new_file(&mut patch, "long", &vec!["x".repeat(999).as_str(); 70_000]);
                patch
            }
            Self::Bomb => {
                const SIZE: u64 = 16 << 20;
                let zeros = zeros(SIZE);
                let mut patch = FIX.to_owned();
                for number in 0..40 {
                    write!(
                        patch,
                        "diff --git a/zeros{number} b/zeros{number}\nnew file mode 100644\n\
                         index 0000000000000000000000000000000000000000..1111111111111111111111111111111111111111\n\
                         GIT binary patch\nliteral {SIZE}\n{zeros}\nliteral 0\nHcmV?d00001\n\n"
                    )
                    .unwrap();
                }
                patch
            }
            Self::ManyHunks => {
                let mut patch = "--- a/clamp.py\n+++ b/clamp.py\n".to_owned();
                for number in 1..=200_000 {
                    write!(patch, "@@ -{number},1 +{number},1 @@\n-nothing\n+something\n").unwrap();
                }
                patch
            }
            Self::SlowHunks => {
                let mut patch = FIX.to_owned();
                new_file(&mut patch, "long", &vec!["x"; 1_000_000]);
                patch.push_str("--- a/long\n+++ b/long\n");
                for number in 0..200_000 {
                    let (old, new) = (2 * number + 1, 3 * number + 1);
                    write!(patch, "@@ -{old},2 +{new},3 @@\n x\n+y\n x\n").unwrap();
                }
                patch
            }
        }
    }
}

fn with_file(path: &str) -> String {
    let mut patch = FIX.to_owned();
    new_file(&mut patch, path, &["x"]);
    patch
}

fn new_file(patch: &mut String, path: &str, lines: &[&str]) {
    write!(
        patch,
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{} @@\n",
        lines.len()
    )
    .unwrap();
    for line in lines {
        patch.push('+');
        patch.push_str(line);
        patch.push('\n');
    }
}

/// So many zeros, deflated, in git's base 85 lines.
fn zeros(size: u64) -> String {
    const ALPHABET: &[u8; 85] =
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let block = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        encoder.write_all(&block).unwrap();
    }
    let mut text = String::new();
    for line in encoder.finish().unwrap().chunks(52) {
        let length = u8::try_from(line.len()).unwrap();
        text.push(char::from(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 }));
        for group in line.chunks(4) {
            let mut bytes = [0; 4];
            bytes[..group.len()].copy_from_slice(group);
            let mut value = u32::from_be_bytes(bytes);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = ALPHABET[(value % 85) as usize];
                value /= 85;
            }
            text.push_str(std::str::from_utf8(&digits).unwrap());
        }
        text.push('\n');
    }
    text
}
