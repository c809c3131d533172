//! Taking times side by side, so that a busy machine slows all that is compared.

use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::Answer;

/// What is measured: its name, and one go at it.
pub struct Case<'a> {
    name: String,
    work: Box<dyn FnMut() -> Answer<()> + 'a>,
    times: Vec<f64>,
}

impl<'a> Case<'a> {
    /// A case.
    pub fn new(name: impl Into<String>, work: impl FnMut() -> Answer<()> + 'a) -> Self {
        Self { name: name.into(), work: Box::new(work), times: Vec::new() }
    }
}

/// Measures the cases in turns and prints a table. The first case is what the others are compared to.
pub fn side_by_side(title: &str, rounds: usize, cases: &mut [Case<'_>]) -> Answer<()> {
    for round in 0..=rounds {
        for case in &mut *cases {
            let took = milliseconds(&mut case.work)?;
            // The first round warms the caches.
            if round > 0 {
                case.times.push(took);
            }
        }
    }
    println!("{title}: {rounds} rounds in turns, times in ms; {}", load());
    let first = cases.first().map_or(f64::NAN, |case| quantile(&case.times, 0.5));
    println!("{:<50} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}", "", "fastest", "quarter", "median", "3/4", "over", "ratio");
    for Case { name, times, .. } in cases {
        let at = |part| quantile(times, part);
        let (median, ratio) = (at(0.5), at(0.5) / first);
        let over = median - first;
        println!(
            "{name:<50} {:>8.2} {:>8.2} {median:>8.2} {:>8.2} {over:>+8.2} {ratio:>7.1}",
            at(0.0),
            at(0.25),
            at(0.75)
        );
    }
    println!();
    Ok(())
}

/// Milliseconds that something took.
pub fn milliseconds(work: impl FnOnce() -> Answer<()>) -> Answer<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

/// A quantile by linear interpolation: 0 is the least value, 0.5 the median.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = part * last as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// How busy the machine is, in words: every figure depends on it.
pub fn load() -> String {
    let text = fs_err::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = text.split(' ').next().unwrap_or("?").to_owned();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!("load {minute} on {processors} processors")
}

/// Runs a command silently to a good end.
pub fn plain(command: &mut Command) -> Answer<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}

/// What a program that ran to its end took.
pub struct Took {
    /// Wall-clock seconds.
    pub wall: f64,
    /// CPU seconds of it and all its children, in user mode and in the kernel.
    pub cpu: f64,
    /// The most memory that it, or one of its children, had at once, in bytes.
    pub memory: u64,
    /// What it wrote.
    pub output: Output,
}

/// Runs a program to its end and measures it.
///
/// Its figures come from `wait4`, so that they are of this one child and not of all that ran before.
pub fn run(command: &mut Command) -> Answer<Took> {
    let start = Instant::now();
    // To files: a pipe would have to be read while waiting.
    let folder = tempfile::tempdir()?;
    let (out, err) = (folder.path().join("out"), folder.path().join("err"));
    let child = command
        .stdin(Stdio::null())
        .stdout(fs_err::File::create(&out)?.into_parts().0)
        .stderr(fs_err::File::create(&err)?.into_parts().0)
        .spawn()?;
    let pid = i32::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of that plain C structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals; nobody else waits for this child.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if reaped != pid {
        return Err(std::io::Error::last_os_error().into());
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let output = Output {
        status: std::os::unix::process::ExitStatusExt::from_raw(status),
        stdout: fs_err::read(&out)?,
        stderr: fs_err::read(&err)?,
    };
    Ok(Took {
        wall: start.elapsed().as_secs_f64(),
        cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        memory: u64::try_from(usage.ru_maxrss)? * 1024,
        output,
    })
}

/// The same, and an error when the program does not end well.
pub fn succeed(command: &mut Command) -> Answer<Took> {
    let took = run(command)?;
    if took.output.status.success() {
        Ok(took)
    } else {
        let said = String::from_utf8_lossy(&took.output.stderr).into_owned();
        Err(format!("{command:?} ended with {}: {said}", took.output.status).into())
    }
}
