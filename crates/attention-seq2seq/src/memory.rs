//! The memory of this machine, and what fits into it.

use sysinfo::{
    CGroupLimits, MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System,
    get_current_pid,
};

use crate::error::{Error, Result};

/// Checks that `what` fits into the memory that this process may use, as far as the system reports it: a failed
/// allocation would end the program, and one beyond the limit of a control group would have it killed.
pub(crate) fn check(what: &str, bytes: f64) -> Result<()> {
    match free() {
        Some(free) if bytes > free => {
            let expected = format!("at most the {} of memory that are free", binary(free));
            Err(Error::config(what, &expected, binary(bytes)))
        }
        _ => Ok(()),
    }
}

/// The bytes available without swapping, within the control groups and limits of this process; `None` if the system
/// does not report them.
fn free() -> Option<f64> {
    let memory = MemoryRefreshKind::nothing().with_ram();
    let mut system = System::new_with_specifics(RefreshKind::nothing().with_memory(memory));
    let own = get_current_pid().ok().and_then(|own| {
        let processes = ProcessesToUpdate::Some(&[own]);
        system.refresh_processes_specifics(processes, false, ProcessRefreshKind::nothing());
        system.process(own)?.cgroup_limits()
    });
    // Inside a container the process may be listed with the groups outside; its own group is then at the root.
    let groups = own.or_else(|| system.cgroup_limits());
    within(system.available_memory(), groups, limits())
}

/// The process's limits on address space and on data (`ulimit -v` and `-d`).
#[cfg(target_os = "linux")]
fn limits() -> [Option<u64>; 2] {
    use rustix::process::{Resource, getrlimit};
    [Resource::As, Resource::Data].map(|it| getrlimit(it).current)
}

#[cfg(not(target_os = "linux"))]
fn limits() -> [Option<u64>; 2] {
    [None; 2]
}

fn within(available: u64, groups: Option<CGroupLimits>, limits: [Option<u64>; 2]) -> Option<f64> {
    // Not `free_memory`, which counts the file cache as used: the system frees that on demand.
    let left = groups.map(|groups| groups.total_memory.saturating_sub(groups.rss));
    let least = limits.into_iter().flatten().chain(left);
    (available > 0).then(|| least.fold(available, u64::min) as f64)
}

fn binary(bytes: f64) -> String {
    const GIB: f64 = (1u64 << 30) as f64;
    format!("{:.1} GiB", bytes / GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_leave_what_is_not_resident_and_the_least_counts() {
        let groups = |total_memory, rss| CGroupLimits {
            total_memory,
            // The cache of files fills the group.
            free_memory: 0,
            free_swap: 0,
            rss,
        };
        let free = [None; 2];
        assert_eq!(within(7, None, free), Some(7.0));
        assert_eq!(within(7, Some(groups(5, 2)), free), Some(3.0));
        assert_eq!(within(2, Some(groups(5, 2)), free), Some(2.0));
        assert_eq!(within(7, Some(groups(5, 6)), free), Some(0.0));
        assert_eq!(within(7, Some(groups(5, 2)), [Some(4), Some(1)]), Some(1.0));
        assert_eq!(within(0, None, free), None);
    }
}
