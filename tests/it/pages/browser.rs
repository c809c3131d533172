//! A headless Chromium, driven over its debugging pipe (the DevTools protocol, messages ended by a NUL).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{host, loudly};

const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one tab, and everything that the tab reported.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    calls: u64,
    events: Vec<Value>,
    profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; `None`, loudly, where there is none.
    pub fn start(what: &str) -> Option<Self> {
        let path = host("PATH").unwrap_or_default();
        let named = |name: &str| std::env::split_paths(&path).map(|p| p.join(name)).find(|p| p.is_file());
        let found =
            ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"].iter().find_map(|n| named(n));
        let Some(program) = found else {
            loudly(&format!("NOT RUN, as there is no chromium in PATH: {what}"));
            return None;
        };
        Some(Self::of(&program))
    }

    fn of(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The pipes are descriptors 3 and 4 of the browser; a shell moves them there.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"])
            .arg(program)
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--window-size=1280,900",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                let text = message.strip_suffix(&[0]).unwrap_or(&message);
                if let Ok(value) = serde_json::from_slice(text)
                    && sender.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self { child, to, from, session: None, calls: 0, events: Vec::new(), profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// One call of the protocol.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        self.to.flush().unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let got = self.next(until, method);
            if got["id"] == id {
                assert!(got["error"].is_null(), "{method}: {}", got["error"]);
                return got["result"].clone();
            }
            self.events.push(got);
        }
    }

    #[track_caller]
    fn next(&self, until: Instant, what: &str) -> Value {
        let left = until.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).unwrap_or_else(|e| panic!("the browser did not answer to {what}: {e}"))
    }

    /// Opens an address and waits until it is loaded.
    #[track_caller]
    pub fn open(&mut self, address: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": address}));
        let until = Instant::now() + PATIENCE;
        while !self.events.iter().any(|e| e["method"] == "Page.loadEventFired") {
            let event = self.next(until, "a page to load");
            self.events.push(event);
        }
    }

    /// Opens a file.
    #[track_caller]
    pub fn open_file(&mut self, file: &Path) {
        self.open(&address(file));
    }

    /// With or without JavaScript, from the next page on.
    pub fn scripts(&mut self, on: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !on}));
    }

    /// The value of an expression on the page.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer = self
            .call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true, "awaitPromise": true}));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true. A page that is just being left has no answer.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        let ask = json!({"expression": expression, "returnByValue": true});
        while self.call("Runtime.evaluate", ask.clone())["result"]["value"] != json!(true) {
            assert!(Instant::now() < until, "never came true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses the mouse in the middle of the first element that a selector finds (of its first line, where it has
    /// several), as a person does.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let place = self.eval(&format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{block: 'center'}}); \
             const b = e.getClientRects()[0]; return [b.x + b.width / 2, b.y + b.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str, code: u32, text: &str) {
        let event = |kind: &str| json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if kind == "keyDown" { text } else { "" }});
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call("Input.dispatchKeyEvent", event("keyUp"));
    }

    /// Addresses that the page asked for.
    pub fn requests(&mut self) -> Vec<String> {
        self.settle();
        let asked = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        asked.map(|e| e["params"]["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// What the page complained about: errors, warnings, exceptions, everything that was written to the console.
    pub fn complaints(&mut self) -> Vec<String> {
        self.settle();
        const KINDS: [&str; 4] =
            ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening"];
        let said = self.events.iter().filter(|e| KINDS.iter().any(|kind| e["method"] == *kind));
        said.map(|e| e["params"].to_string()).collect()
    }

    /// Answers come in order: after one more round everything that was on its way is here.
    fn settle(&mut self) {
        self.call("Page.getLayoutMetrics", json!({}));
    }

    /// The size of the window, and whether the person likes it dark.
    pub fn window(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": feature}));
    }

    /// Writes what is to be seen as a PNG.
    pub fn shoot(&mut self, file: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let mut decode = Command::new("base64");
        let decode = decode.arg("-d").stdin(Stdio::piped()).stdout(fs_err::File::create(file).unwrap().into_file());
        let mut decode = decode.spawn().unwrap();
        decode.stdin.take().unwrap().write_all(shot["data"].as_str().unwrap().as_bytes()).unwrap();
        assert!(decode.wait().unwrap().success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
        // Helpers of the browser may still be writing.
        let until = Instant::now() + Duration::from_secs(5);
        while fs_err::remove_dir_all(self.profile.path()).is_err() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

/// The address of a file.
pub fn address(file: &Path) -> String {
    let file: PathBuf = fs_err::canonicalize(file).unwrap();
    format!("file://{}", file.display())
}
