//! What an engine says of itself.

use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum, SystemVersion};

/// The oldest version of the API that has all we use: Docker 20.10's.
const OLDEST_API: (u32, u32) = (1, 41);

/// An engine's own account.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    /// Docker, Podman, or what else it calls itself.
    pub product: String,
    /// Its version.
    pub version: String,
    /// The version of the API that both sides speak.
    pub api: String,
    /// How it stores images.
    pub storage: String,
    /// `1` or `2`; `?` where it does not say.
    pub cgroup: String,
    /// Whether it limits memory.
    pub limits_memory: bool,
    /// Whether it limits processes.
    pub limits_pids: bool,
    /// Whether containers can have an init process of the engine's.
    pub has_init: bool,
    /// Whether users inside are other users outside.
    pub maps_users: bool,
    /// Whether a filter of system calls is in force by default.
    pub filters_calls: bool,
    /// The processor's architecture and the kernel.
    pub machine: String,
}

impl Facts {
    /// Reads the engine's answers; `api` is the version that was agreed on.
    pub fn of(version: &SystemVersion, info: &SystemInfo, api: String) -> Self {
        let components = version.components.as_deref().unwrap_or_default();
        let product = match components.first().map(|one| one.name.as_str()) {
            Some("Engine") | None => "Docker",
            Some("Podman Engine") => "Podman",
            Some(other) => other,
        };
        // Docker says `N/A` of an init program that is configured and not installed.
        let said = |text: &str| !text.is_empty() && text != "N/A";
        let init = components.iter().find(|one| one.name == "docker-init");
        let has_init = init.is_some_and(|one| said(&one.version));
        let options = info.security_options.as_deref().unwrap_or_default();
        let has = |name: &str| {
            options.iter().any(|option| option.split(',').any(|part| part == name || part == format!("name={name}")))
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            product: product.to_owned(),
            version: text(&version.version),
            api,
            storage: text(&info.driver),
            cgroup: match info.cgroup_version {
                Some(SystemInfoCgroupVersionEnum::_1) => "1",
                Some(SystemInfoCgroupVersionEnum::_2) => "2",
                _ => "?",
            }
            .to_owned(),
            limits_memory: info.memory_limit.unwrap_or(false),
            limits_pids: info.pids_limit.unwrap_or(false),
            has_init,
            maps_users: has("userns") || has("rootless"),
            filters_calls: has("seccomp"),
            machine: format!("{} {}", text(&info.architecture), text(&info.kernel_version)),
        }
    }

    /// Whether it is new enough, and if not, why.
    pub fn check(&self) -> Result<(), String> {
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
        let mut parts = self.api.split('.');
        match (number(parts.next()), number(parts.next())) {
            (Some(major), Some(minor)) if (major, minor) < OLDEST_API => Err(format!(
                "{} {} speaks version {} of the API, and 1.41 is needed: install Docker 20.10 or newer",
                self.product, self.version, self.api
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str, info: &str, api: &str) -> Facts {
        Facts::of(&serde_json::from_str(version).unwrap(), &serde_json::from_str(info).unwrap(), api.to_owned())
    }

    #[test]
    fn dockers_answers_are_read() {
        let version = r#"{"Version":"20.10.24","Components":[{"Name":"Engine","Version":"20.10.24"},
            {"Name":"docker-init","Version":"0.19.0"}]}"#;
        let info = r#"{"Driver":"overlay2","CgroupVersion":"1","MemoryLimit":true,"PidsLimit":true,
            "SecurityOptions":["name=seccomp,profile=default"],"Architecture":"x86_64","KernelVersion":"6.1"}"#;
        let read = facts(version, info, "1.41");
        assert_eq!((read.product.as_str(), read.cgroup.as_str(), read.has_init), ("Docker", "1", true));
        assert!(read.filters_calls && !read.maps_users && read.limits_memory);
        assert!(read.check().is_ok());
        let absent = facts(&version.replace("0.19.0", "N/A"), &info.replace("seccomp", "rootless"), "1.40");
        assert!(!absent.has_init && absent.maps_users && !absent.filters_calls);
        assert!(absent.check().unwrap_err().contains("1.40"));
    }

    #[test]
    fn podmans_answers_are_read_and_silence_means_no() {
        let read = facts(
            r#"{"Version":"5.4.0","Components":[{"Name":"Podman Engine","Version":"5.4.0"}]}"#,
            r#"{"CgroupVersion":"2","SecurityOptions":["name=seccomp,profile=default","name=rootless"]}"#,
            "1.41",
        );
        assert_eq!((read.product.as_str(), read.cgroup.as_str()), ("Podman", "2"));
        assert!(read.maps_users && !read.has_init && !read.limits_memory);
    }
}
