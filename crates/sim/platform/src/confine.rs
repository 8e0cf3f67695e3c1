//! Confinement: the rights that a device process gives up before it runs kernels on untrusted data.
//!
//! A replay runs kernels on arguments from a file, which may be hostile. A confined process gains no
//! privileges, opens no file for writing, creates no socket, starts no process and uses bounded memory. A
//! refused system call raises SIGSYS. The device records it like a crash, with task, kernel and system call.
//! A system call that is in neither list fails with ENOSYS.
//!
//! Confinement comes last, when everything that the device needs is open: libraries are loaded, memory is
//! mapped and the socket is connected.

use std::{collections::BTreeMap, fmt};

use crate::Shadow;
use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// Limit on the private memory of a confined device, including thread stacks. Device memory is shared and
/// does not count.
const MAX_DATA_BYTES: u64 = 8 << 30;
/// Limit on the open files of a confined device.
const MAX_FILES: u64 = 64;

/// The restrictions of a device process. A system may lack some of them, so each is reported separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// The process cannot gain privileges by executing a program.
    pub no_new_privileges: bool,
    /// System calls that write files, create sockets or start processes are refused.
    pub system_calls: bool,
    /// Memory and open files are limited.
    pub limits: bool,
}

impl Confinement {
    /// No restriction is in force.
    pub const NONE: Confinement =
        Confinement { no_new_privileges: false, system_calls: false, limits: false };
    /// Every restriction is in force.
    pub const FULL: Confinement = Confinement { no_new_privileges: true, system_calls: true, limits: true };

    /// Each restriction with its name, and whether it is in force.
    #[must_use]
    pub fn means(self) -> [(&'static str, bool); 3] {
        [
            ("no_new_privileges", self.no_new_privileges),
            ("system_calls", self.system_calls),
            ("limits", self.limits),
        ]
    }

    /// The restrictions that are in force in both.
    #[must_use]
    pub fn and(self, other: Confinement) -> Confinement {
        Confinement::from_bits(self.bits() & other.bits())
    }

    pub(crate) fn bits(self) -> u64 {
        self.means().iter().rev().fold(0, |bits, (_, is)| bits << 1 | u64::from(*is))
    }

    pub(crate) fn from_bits(bits: u64) -> Confinement {
        Confinement { no_new_privileges: bits & 1 != 0, system_calls: bits & 2 != 0, limits: bits & 4 != 0 }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.means().into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }
}

/// Confines the calling thread and all threads that it starts from now on. This cannot be undone: the process
/// can open no file for writing, start no process and load no library. Restrictions that the system lacks are
/// skipped. The memory limit is skipped if an address sanitizer is loaded.
pub fn confine() -> Confinement {
    let limits = [(Resource::Nofile, MAX_FILES), (Resource::Core, 0)];
    let limited = limits.map(|(resource, most)| limit(resource, most)) == [true; 2];
    // An address sanitizer reserves an eighth of the address space, which the limit would forbid.
    let memory_limited = Shadow::find().is_none() && limit(Resource::Data, MAX_DATA_BYTES);
    Confinement {
        no_new_privileges: rustix::thread::set_no_new_privs(true).is_ok(),
        limits: limited && memory_limited,
        // Last, because the filter refuses some of the calls above.
        system_calls: filters().is_some_and(|filters| filters.iter().all(|f| apply_filter(f).is_ok())),
    }
}

fn limit(resource: Resource, most: u64) -> bool {
    let Rlimit { current, maximum } = getrlimit(resource);
    let lower = |now: Option<u64>| Some(now.map_or(most, |now| now.min(most)));
    setrlimit(resource, Rlimit { current: lower(current), maximum: lower(maximum) }).is_ok()
}

/// The signal that a refused system call raises.
pub const SIGSYS: i32 = libc::SIGSYS;

/// The name of a system call that a confined device is refused.
#[must_use]
pub fn refused_call(number: u64) -> Option<&'static str> {
    let mut known = REFUSED.iter().chain(REFUSED_IN_PART).chain(OLD_REFUSED);
    known.find(|(call, _)| u64::try_from(*call) == Ok(number)).map(|(_, name)| *name)
}

/// System calls that are refused with any arguments.
const REFUSED: &[(i64, &str)] = &[
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_bind, "bind"),
    (libc::SYS_listen, "listen"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_execve, "execve"),
    (libc::SYS_execveat, "execveat"),
    (libc::SYS_unshare, "unshare"),
    (libc::SYS_setns, "setns"),
    (libc::SYS_ptrace, "ptrace"),
    (libc::SYS_process_vm_readv, "process_vm_readv"),
    (libc::SYS_process_vm_writev, "process_vm_writev"),
    (libc::SYS_kill, "kill"),
    (libc::SYS_tkill, "tkill"),
    (libc::SYS_rt_sigqueueinfo, "rt_sigqueueinfo"),
    (libc::SYS_rt_tgsigqueueinfo, "rt_tgsigqueueinfo"),
    (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
    (libc::SYS_pidfd_open, "pidfd_open"),
    (libc::SYS_pidfd_getfd, "pidfd_getfd"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_mknodat, "mknodat"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_fchmod, "fchmod"),
    (libc::SYS_fchmodat, "fchmodat"),
    (libc::SYS_fchown, "fchown"),
    (libc::SYS_fchownat, "fchownat"),
    (libc::SYS_utimensat, "utimensat"),
    (libc::SYS_setxattr, "setxattr"),
    (libc::SYS_lsetxattr, "lsetxattr"),
    (libc::SYS_fsetxattr, "fsetxattr"),
    (libc::SYS_removexattr, "removexattr"),
    (libc::SYS_mount, "mount"),
    (libc::SYS_umount2, "umount2"),
    (libc::SYS_pivot_root, "pivot_root"),
    (libc::SYS_chroot, "chroot"),
    (libc::SYS_move_mount, "move_mount"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_io_uring_register, "io_uring_register"),
    (libc::SYS_init_module, "init_module"),
    (libc::SYS_finit_module, "finit_module"),
    (libc::SYS_delete_module, "delete_module"),
    (libc::SYS_kexec_load, "kexec_load"),
    (libc::SYS_keyctl, "keyctl"),
    (libc::SYS_add_key, "add_key"),
    (libc::SYS_request_key, "request_key"),
    (libc::SYS_setuid, "setuid"),
    (libc::SYS_setgid, "setgid"),
    (libc::SYS_setreuid, "setreuid"),
    (libc::SYS_setregid, "setregid"),
    (libc::SYS_setresuid, "setresuid"),
    (libc::SYS_setresgid, "setresgid"),
    (libc::SYS_setgroups, "setgroups"),
    (libc::SYS_capset, "capset"),
    (libc::SYS_shmget, "shmget"),
    (libc::SYS_shmat, "shmat"),
    (libc::SYS_msgget, "msgget"),
    (libc::SYS_semget, "semget"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_reboot, "reboot"),
    (libc::SYS_swapon, "swapon"),
    (libc::SYS_swapoff, "swapoff"),
    (libc::SYS_sethostname, "sethostname"),
    (libc::SYS_setdomainname, "setdomainname"),
    (libc::SYS_settimeofday, "settimeofday"),
    (libc::SYS_clock_settime, "clock_settime"),
];

#[cfg(target_arch = "x86_64")]
/// Like [`REFUSED`], for calls that only x86-64 has.
const OLD_REFUSED: &[(i64, &str)] = &[
    (libc::SYS_fork, "fork"),
    (libc::SYS_vfork, "vfork"),
    (libc::SYS_creat, "creat"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_link, "link"),
    (libc::SYS_symlink, "symlink"),
    (libc::SYS_mknod, "mknod"),
    (libc::SYS_chmod, "chmod"),
    (libc::SYS_chown, "chown"),
    (libc::SYS_lchown, "lchown"),
    (libc::SYS_utime, "utime"),
    (libc::SYS_utimes, "utimes"),
    (libc::SYS_futimesat, "futimesat"),
];

#[cfg(not(target_arch = "x86_64"))]
const OLD_REFUSED: &[(i64, &str)] = &[];

/// System calls that are refused if they would open a file for writing, start a process, or make memory
/// executable.
const REFUSED_IN_PART: &[(i64, &str)] = &[
    (libc::SYS_openat, "openat"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
];

/// System calls that threads, memory, clocks and the link to the host need. Reading files is allowed for
/// panic messages.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_times,
    libc::SYS_clone,
];

#[cfg(target_arch = "x86_64")]
/// Like [`ALLOWED`], for calls that only x86-64 has.
const OLD_ALLOWED: &[i64] = &[
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];

#[cfg(not(target_arch = "x86_64"))]
const OLD_ALLOWED: &[i64] = &[];

/// Two filters, in order of installation. The first refuses calls with a signal. The second lists the allowed
/// calls, and so forbids further filters. If both match, the stricter result counts.
fn filters() -> Option<[BpfProgram; 2]> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().ok()?;
    let filter = |rules, otherwise, matched| -> Option<BpfProgram> {
        SeccompFilter::new(rules, otherwise, matched, arch).ok()?.try_into().ok()
    };
    // As if the kernel lacked the call. Libraries then fall back to an older one.
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    Some([
        filter(refused()?, SeccompAction::Allow, SeccompAction::Trap)?,
        filter(allowed()?, unknown, SeccompAction::Allow)?,
    ])
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn allowed() -> Option<Rules> {
    let refused = REFUSED.iter().chain(OLD_REFUSED).map(|(call, _)| call);
    let mut rules: Rules =
        ALLOWED.iter().chain(OLD_ALLOWED).chain(refused).map(|&call| (call, Vec::new())).collect();
    let own = u64::try_from(getpid().as_raw_nonzero().get()).ok()?;
    rules.insert(libc::SYS_tgkill, vec![when(0, SeccompCmpOp::Eq, own)?]);
    let name = u64::try_from(libc::PR_SET_NAME).ok()?;
    rules.insert(libc::SYS_prctl, vec![when(0, SeccompCmpOp::Eq, name)?]);
    Some(rules)
}

fn refused() -> Option<Rules> {
    let mut rules: Rules = REFUSED.iter().chain(OLD_REFUSED).map(|&(call, _)| (call, Vec::new())).collect();
    let is = |argument: u8, mask: i32, value: i32| {
        when(
            argument,
            SeccompCmpOp::MaskedEq(u64::from(mask.unsigned_abs())),
            u64::from(value.unsigned_abs()),
        )
    };
    let writing = |flags: u8| -> Option<Vec<SeccompRule>> {
        Some(vec![
            is(flags, libc::O_ACCMODE, libc::O_WRONLY)?,
            is(flags, libc::O_ACCMODE, libc::O_RDWR)?,
            is(flags, libc::O_CREAT, libc::O_CREAT)?,
            is(flags, libc::O_TRUNC, libc::O_TRUNC)?,
        ])
    };
    rules.insert(libc::SYS_openat, writing(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, writing(1)?);
    rules.insert(libc::SYS_clone, vec![is(0, libc::CLONE_THREAD, 0)?]);
    rules.insert(libc::SYS_mmap, vec![is(2, libc::PROT_EXEC, libc::PROT_EXEC)?]);
    rules.insert(libc::SYS_mprotect, vec![is(2, libc::PROT_EXEC, libc::PROT_EXEC)?]);
    Some(rules)
}

fn when(argument: u8, operator: SeccompCmpOp, value: u64) -> Option<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).ok()?;
    SeccompRule::new(vec![condition]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile_and_every_refused_call_has_a_name() {
        assert!(filters().is_some());
        for call in refused().unwrap().keys() {
            assert!(refused_call(call.unsigned_abs()).is_some(), "{call}");
        }
        assert_eq!(refused_call(libc::SYS_connect.unsigned_abs()), Some("connect"));
        assert_eq!(refused_call(libc::SYS_read.unsigned_abs()), None);
    }

    #[test]
    fn confinement_bits_round_trip_and_display() {
        for bits in 0..8 {
            assert_eq!(Confinement::from_bits(bits).bits(), bits);
        }
        assert_eq!(Confinement::FULL.to_string(), "no_new_privileges, system_calls, limits");
        assert_eq!(Confinement::NONE.to_string(), "none");
        assert_eq!(Confinement::FULL.and(Confinement::NONE), Confinement::NONE);
    }
}
