//! Logs as package clients write them: of a network that did not answer, and of packages that cannot be had.

use std::path::PathBuf;
use std::time::Duration;

use super::Failure;
use crate::environment::error::Phase;
use crate::environment::recorder::exit;
use crate::environment::run;
use crate::environment::trouble::FailureKind as K;
use crate::environment::{Definitions, Stage};
use crate::model::InfraReason as R;
use crate::sandbox::{Captured, Exit, Limits, Network, Root, Task};

/// The failure of a step that wrote this, as a build gives it.
fn failed(language: &str, network: Network, log: &str) -> Failure {
    let definition = Definitions::load(&[]).unwrap().get(language).unwrap();
    let task = Task {
        argv: vec!["client".to_owned()],
        cwd: PathBuf::from("/"),
        variables: std::collections::BTreeMap::new(),
        root: Root::Host,
        mounts: Vec::new(),
        limits: Limits { wall: Duration::from_secs(60), ..Limits::default() },
        network,
        result_channel: false,
    };
    let exit = Exit { stderr: Captured { bytes: log.as_bytes().to_vec(), dropped: 0 }, ..exit(1, "") };
    let error = run::failure(&definition, Phase::Fetch, "install", &task.argv, &task, &exit, &[]);
    Failure::of_error(&error, Some(&definition))
}

const PIP_DEAD: &str = "\
WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by \
'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new \
connection: [Errno -3] Temporary failure in name resolution')': /simple/six/
ERROR: Could not find a version that satisfies the requirement six==1.16.0 (from versions: none)
ERROR: No matching distribution found for six==1.16.0
";
const PIP_503: &str = "\
ERROR: HTTP error 503 while getting https://files.pythonhosted.org/packages/six-1.16.0-py2.py3-none-any.whl
ERROR: 503 Server Error: Service Unavailable for url: https://files.pythonhosted.org/packages/six-1.16.0.whl
";
const PIP_TIMEOUT: &str = "\
pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out.
";
const PIP_NO_VERSION: &str = "\
ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0, 1.16.0)
ERROR: No matching distribution found for six==99
";
const PIP_CONFLICT: &str = "\
ERROR: Cannot install upper==1.0 and steady<2 because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
";
const UV_DEAD: &str = "\
error: Request failed after 3 retries
  Caused by: Failed to fetch: `https://pypi.org/simple/six/`
  Caused by: error sending request for url (https://pypi.org/simple/six/)
  Caused by: client error (Connect)
  Caused by: dns error: failed to lookup address information: Temporary failure in name resolution
";
const NPM_ERESOLVE: &str = "\
npm error code ERESOLVE
npm error ERESOLVE could not resolve
npm error
npm error While resolving: react-dom@18.2.0
npm error Found: react@17.0.2
npm error Could not resolve dependency:
npm error peer react@\"^18.2.0\" from react-dom@18.2.0
";
const NPM_TARGET: &str = "\
npm error code ETARGET
npm error notarget No matching version found for lodash@99.
";
const NPM_DEAD: &str = "\
npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error network request to https://registry.npmjs.org/lodash failed, reason: getaddrinfo ENOTFOUND registry.npmjs.org
";
const NPM_503: &str = "\
npm error code E503
npm error 503 Service Unavailable - GET https://registry.npmjs.org/lodash
";
const YARN_DEAD: &str = "\
error An unexpected error occurred: \"https://registry.yarnpkg.com/lodash: getaddrinfo EAI_AGAIN registry.yarnpkg.com\".
";
const CARGO_DEAD: &str = "\
warning: spurious network error (3 tries remaining): [6] Couldn't resolve host name (Could not resolve host: index.crates.io)
error: failed to get `serde` as a dependency of package `own v0.1.0 (/workspace)`
Caused by:
  download of config.json failed
";
const CARGO_503: &str = "\
error: failed to download from `https://static.crates.io/crates/serde/1.0.0/download`
Caused by:
  failed to get successful HTTP response from `https://static.crates.io/crates/serde/1.0.0/download` (1.2.3.4), got 503
";
const CARGO_CUT: &str = "\
error: failed to download from `https://static.crates.io/crates/serde/1.0.0/download`
Caused by:
  [56] Failure when receiving data from the peer (OpenSSL SSL_read: unexpected eof)
";
const CARGO_NO_VERSION: &str = "\
error: failed to select a version for the requirement `serde = \"^99\"`
candidate versions found which didn't match: 1.0.228, 1.0.227
location searched: crates.io index
";
const CARGO_UNDECLARED: &str = "\
error[E0433]: failed to resolve: use of undeclared crate or module `own`
error: could not compile `x` (build script) due to 1 previous error
";
const GO_DEAD: &str = "\
go: github.com/pkg/errors@v0.9.1: Get \"https://proxy.golang.org/github.com/pkg/errors/@v/v0.9.1.mod\": dial tcp: \
lookup proxy.golang.org on 127.0.0.11:53: no such host
";
const GO_TIMEOUT: &str = "\
go: github.com/pkg/errors@v0.9.1: Get \"https://proxy.golang.org/github.com/pkg/errors/@v/v0.9.1.mod\": dial tcp \
142.250.1.1:443: i/o timeout
";
const GO_503: &str = "\
go: github.com/pkg/errors@v0.9.1: reading https://proxy.golang.org/github.com/pkg/errors/@v/v0.9.1.mod: 503 Service Unavailable
";
const GO_NO_VERSION: &str = "\
go: github.com/pkg/errors@v9.9.9: reading https://proxy.golang.org/github.com/pkg/errors/@v/v9.9.9.info: 404 Not Found
\tserver response: not found: github.com/pkg/errors@v9.9.9: invalid version: unknown revision v9.9.9
";
const MAVEN_REFUSED: &str = "\
[ERROR] Failed to execute goal on project own: Could not resolve dependencies for project a:own:jar:1: Failed to collect \
dependencies at junit:junit:jar:4.13.2: Failed to read artifact descriptor for junit:junit:jar:4.13.2: Could not transfer \
artifact junit:junit:pom:4.13.2 from/to central (https://repo.maven.apache.org/maven2): Connect to \
repo.maven.apache.org:443 [repo.maven.apache.org/1.2.3.4] failed: Connection refused -> [Help 1]
";
const MAVEN_HOST: &str = "\
[ERROR] Plugin org.apache.maven.plugins:maven-clean-plugin:3.2.0 or one of its dependencies could not be resolved: Failed \
to read artifact descriptor: Could not transfer artifact org.apache.maven.plugins:maven-clean-plugin:pom:3.2.0 from/to \
central (https://repo.maven.apache.org/maven2): repo.maven.apache.org: Unknown host repo.maven.apache.org -> [Help 1]
";
const MAVEN_503: &str = "\
[ERROR] Could not transfer artifact junit:junit:pom:4.13.2 from/to central (https://repo.maven.apache.org/maven2): transfer \
failed for https://repo.maven.apache.org/maven2/junit/junit/4.13.2/junit-4.13.2.pom, status: 503 Service Unavailable
";
const MAVEN_ABSENT: &str = "\
[ERROR] Failed to execute goal on project own: Could not resolve dependencies for project a:own:jar:1: Could not find \
artifact com.example:nowhere:jar:9.9 in central (https://repo.maven.apache.org/maven2) -> [Help 1]
";
const MAVEN_BLOCKED: &str = "\
[ERROR] Failed to execute goal on project own: Could not resolve dependencies for project a:own:jar:1: Failed to collect \
dependencies: Could not transfer artifact com.example:old:pom:1 from/to maven-default-http-blocker (http://0.0.0.0/): \
Blocked mirror for repositories: [old (http://repo.example.com/maven, default, releases)] -> [Help 1]
";
const GRADLE_DEAD: &str = "\
> Could not resolve all files for configuration ':compileClasspath'.
   > Could not resolve com.google.guava:guava:31.1-jre.
      > Could not get resource 'https://repo.maven.apache.org/maven2/com/google/guava/guava/31.1-jre/guava-31.1-jre.pom'.
         > Could not GET 'https://repo.maven.apache.org/maven2/com/google/guava/guava/31.1-jre/guava-31.1-jre.pom'.
            > repo.maven.apache.org: Temporary failure in name resolution
";
const GRADLE_503: &str = "\
> Could not resolve com.google.guava:guava:31.1-jre.
   > Could not GET 'https://repo.maven.apache.org/maven2/com/google/guava/guava-31.1-jre.pom'. Received status code 503 \
from server: Service Unavailable
";
const GRADLE_ABSENT: &str = "\
> Could not resolve all files for configuration ':compileClasspath'.
   > Could not find com.example:nowhere:9.9.
     Searched in the following locations:
       - https://repo.maven.apache.org/maven2/com/example/nowhere/9.9/nowhere-9.9.pom
";

#[test]
fn a_network_that_did_not_answer_is_the_networks() {
    for (language, log) in [
        ("python", PIP_DEAD),
        ("python", PIP_503),
        ("python", PIP_TIMEOUT),
        ("python", UV_DEAD),
        ("node", NPM_DEAD),
        ("node", NPM_503),
        ("node", YARN_DEAD),
        ("rust", CARGO_DEAD),
        ("rust", CARGO_503),
        ("rust", CARGO_CUT),
        ("go", GO_DEAD),
        ("go", GO_TIMEOUT),
        ("go", GO_503),
        ("java", MAVEN_REFUSED),
        ("java", MAVEN_HOST),
        ("java", MAVEN_503),
        ("java", GRADLE_DEAD),
        ("java", GRADLE_503),
    ] {
        let failure = failed(language, Network::Host, log);
        let found = (failure.kind, failure.reason, failure.stage, failure.is_of_the_machine());
        assert_eq!(found, (K::Network, R::Network, Stage::Fetch, true), "{language}: {failure:?}");
        assert!(!failure.lines.is_empty());
        // A step without network is not believed: what it runs is code of others.
        let without = failed(language, Network::None, log);
        assert_ne!((without.kind, without.reason), (K::Network, R::Network), "{language}: {without:?}");
        assert!(!without.is_of_the_machine());
    }
}

#[test]
fn packages_that_cannot_be_had_are_the_repositorys() {
    for (language, log, kind) in [
        ("python", PIP_NO_VERSION, K::NoSuchVersion),
        ("python", PIP_CONFLICT, K::VersionConflict),
        ("node", NPM_ERESOLVE, K::VersionConflict),
        ("node", NPM_TARGET, K::NoSuchVersion),
        ("rust", CARGO_NO_VERSION, K::NoSuchVersion),
        ("rust", CARGO_UNDECLARED, K::Compiler),
        ("go", GO_NO_VERSION, K::NoSuchVersion),
        ("java", MAVEN_ABSENT, K::NoSuchVersion),
        ("java", MAVEN_BLOCKED, K::NoSuchVersion),
        ("java", GRADLE_ABSENT, K::NoSuchVersion),
    ] {
        let failure = failed(language, Network::Host, log);
        assert_eq!((failure.kind, failure.reason), (kind, R::Environment), "{language}: {failure:?}");
        assert!(!failure.is_of_the_machine());
    }
}

#[test]
fn only_a_package_client_is_believed_that_the_disk_is_full() {
    let log = "OSError: [Errno 28] No space left on device\n";
    let of = |network| failed("python", network, log);
    assert_eq!((of(Network::Host).kind, of(Network::Host).reason), (K::Disk, R::Disk));
    assert!(of(Network::Host).is_of_the_machine());
    assert_eq!(of(Network::None).reason, R::Environment);
    assert!(!of(Network::None).is_of_the_machine());
}
