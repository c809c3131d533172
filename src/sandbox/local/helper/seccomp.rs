//! The system calls that a command may not make.
//!
//! The list forbids what container runtimes forbid by default: everything that makes or enters namespaces, mounts,
//! loads code into the kernel, sets the clock, reads other machines' parts of this one, or has a history of holes and
//! no use in tests.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// Answered with `EPERM`, whatever the arguments.
const DENIED: &[c_long] = &[
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // Files by handle get around the private root.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Namespaces.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Open files of another process, which it did not give.
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Kernel keys belong to the user and not to a namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Kernel code, and windows into the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Answered with `ENOSYS`: libraries have an older way, and take it when told that the new one does not exist.
/// `clone3` keeps its flags in memory, where a filter cannot read them; programs fall back to `clone`.
const ABSENT: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// The first number after the calls that this list was made from (Linux 6.14): whatever came later is as absent as on
/// an older kernel. The numbers of the x32 calling convention, which would get around a list of native numbers (the
/// architecture field is the same), are far above it.
const FIRST_UNKNOWN: u32 = 467;

/// `clone(2)`'s flags for new namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Socket families with a use in tests: local, both internets, and routing tables for listing interfaces.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Execution domains: native, 32-bit layout, no address randomisation, both, and the question for the current one.
const PERSONALITIES: [u64; 5] = [0x0000_0000, 0x0000_0008, 0x0002_0000, 0x0002_0008, 0xffff_ffff];

/// The filters, to be installed one after the other.
pub fn filters() -> Result<[BpfProgram; 2], Error> {
    static COMPILED: OnceLock<[BpfProgram; 2]> = OnceLock::new();
    if let Some(filters) = COMPILED.get() {
        return Ok(filters.clone());
    }
    let denied = SeccompFilter::new(
        rules()?,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::try_from(std::env::consts::ARCH).map_err(Error::Backend)?,
    )
    .and_then(BpfProgram::try_from)
    .map_err(Error::Backend)?;
    Ok(COMPILED.get_or_init(|| [absent(), denied]).clone())
}

fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, Error> {
    let condition = |index, operator, value| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value).map_err(Error::Backend)
    };
    let rule = |conditions| SeccompRule::new(conditions).map_err(Error::Backend);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    // Any one of the flags is enough …
    let clone = NAMESPACES
        .into_iter()
        .map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            rule(vec![condition(0, SeccompCmpOp::MaskedEq(flag), flag)?])
        })
        .collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_clone, clone);
    // … while these must differ from all that is allowed.
    let none_of = |values: &[u64]| {
        rule(values.iter().map(|value| condition(0, SeccompCmpOp::Ne, *value)).collect::<Result<_, _>>()?)
    };
    let families = FAMILIES.map(|family| u64::from(family.cast_unsigned()));
    rules.insert(libc::SYS_socket, vec![none_of(&families)?]);
    rules.insert(libc::SYS_personality, vec![none_of(&PERSONALITIES)?]);
    // An unprivileged caller's PID 1 has the command's own user, and limits of ours that this user could change.
    for call in [
        libc::SYS_prlimit64,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setaffinity,
    ] {
        rules.insert(call, vec![rule(vec![condition(0, SeccompCmpOp::Eq, 1)?])?]);
    }
    // Typing into a terminal that somebody else reads.
    rules.insert(libc::SYS_ioctl, vec![rule(vec![condition(1, SeccompCmpOp::Eq, libc::TIOCSTI)?])?]);
    Ok(rules)
}

/// A filter by hand for the second error number.
fn absent() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let enosys = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut program = vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_UNKNOWN },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: enosys },
    ];
    for call in ABSENT {
        let k = u32::try_from(*call).unwrap_or(u32::MAX);
        program.push(sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k });
        program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: enosys });
    }
    program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW });
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile_within_the_kernels_bound() {
        for program in filters().unwrap() {
            assert!(program.len() > ABSENT.len() && program.len() < 4096, "{}", program.len());
        }
    }

    #[test]
    fn no_call_is_in_both_lists_or_twice() {
        let mut all: Vec<_> = DENIED.iter().chain(ABSENT).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
