//! The memory that a process may still have on Linux: what is free, within the limits that it was given.

use std::fs;
use std::path::{Path, PathBuf};

/// The bytes that can be had: the least of what the machine has without swapping, what limits of the process leave
/// (`ulimit -v`, `ulimit -d`) and what each of its control groups leaves; `None` where the system does not tell.
///
/// `root` is the root of the file system.
pub(super) fn free(root: &Path) -> Option<f64> {
    let all = [
        of_machine(root),
        of_process(root),
        of_unified_groups(root),
        of_memory_groups(root),
    ];
    all.into_iter().flatten().reduce(f64::min)
}

/// Without swapping.
fn of_machine(root: &Path) -> Option<f64> {
    field(&read(&root.join("proc/meminfo"))?, "MemAvailable:")
}

/// Within the limits on address space and on data.
///
/// They leave what is not resident: the allocator has reserved address space that is still to be given out.
fn of_process(root: &Path) -> Option<f64> {
    let limits = read(&root.join("proc/self/limits"))?;
    let soft = |name: &str| -> Option<f64> {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        // The word may be "unlimited".
        line.split_whitespace().next()?.parse().ok()
    };
    let limit = [soft("Max address space"), soft("Max data size")];
    let limit = limit.into_iter().flatten().reduce(f64::min)?;
    let resident = field(&read(&root.join("proc/self/status"))?, "VmRSS:")?;
    Some((limit - resident).max(0.0))
}

/// Within control groups of version 2.
fn of_unified_groups(root: &Path) -> Option<f64> {
    let groups = read(&root.join("proc/self/cgroup"))?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let files = Files {
        limit: "memory.max",
        usage: "memory.current",
        caches: ["inactive_file ", "active_file "],
    };
    files.free(root, group, |kind, _| kind == "cgroup2")
}

/// Within control groups of version 1, those of the controller for memory.
fn of_memory_groups(root: &Path) -> Option<f64> {
    let is_memory = |list: &str| list.split(',').any(|it| it == "memory");
    let groups = read(&root.join("proc/self/cgroup"))?;
    let group = groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        is_memory(controllers).then_some(group)
    })?;
    let files = Files {
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        caches: ["total_inactive_file ", "total_active_file "],
    };
    files.free(root, group, |kind, options| {
        kind == "cgroup" && is_memory(options)
    })
}

/// The names of a control group's files.
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// In `memory.stat`: what is used for files and can be had again, whether it was read lately or not.
    caches: [&'static str; 2],
}

impl Files {
    /// The least that a group or one above it leaves, in the hierarchy whose type and options `is_it`.
    fn free(&self, root: &Path, group: &str, is_it: impl Fn(&str, &str) -> bool) -> Option<f64> {
        let mounts = read(&root.join("proc/self/mountinfo"))?;
        let (top, mount) = mounts.lines().find_map(|line| {
            // https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html
            let (mount, kind) = line.split_once(" - ")?;
            let kind: Vec<&str> = kind.split(' ').collect();
            let mount: Vec<&str> = mount.split(' ').collect();
            is_it(kind.first()?, kind.get(2)?).then_some((*mount.get(3)?, *mount.get(4)?))
        })?;
        let mount = root.join(mount.trim_start_matches('/'));
        // A container may see a part of the hierarchy only, and its group be outside of that.
        let below = Path::new(group).strip_prefix(top).unwrap_or(Path::new(""));
        let group: PathBuf = mount.join(below);
        let groups = group.ancestors().take_while(|it| it.starts_with(&mount));
        groups
            .filter_map(|group| self.left_by(group))
            .reduce(f64::min)
    }

    /// The bytes that one group leaves; `None` if it has no limit.
    fn left_by(&self, group: &Path) -> Option<f64> {
        let number = |file: &str| -> Option<f64> { read(&group.join(file))?.trim().parse().ok() };
        // The word may be "max".
        let limit = number(self.limit)?;
        let usage = number(self.usage).unwrap_or(0.0);
        let stat = read(&group.join("memory.stat")).unwrap_or_default();
        let bytes = |cache: &str| -> Option<f64> {
            let line = stat.lines().find_map(|line| line.strip_prefix(cache))?;
            line.parse().ok()
        };
        let cached: f64 = self.caches.into_iter().filter_map(bytes).sum();
        Some((limit - (usage - cached).max(0.0)).max(0.0))
    }
}

fn read(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()
}

/// The bytes in a line like `VmRSS:  123 kB`.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024.0 * kibibytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A machine of 8 GiB whose root has these files too.
    fn machine(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let all = [(
            "proc/meminfo",
            "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n",
        )];
        for (name, content) in all.iter().chain(files) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    fn gibibytes(files: &[(&str, &str)]) -> Option<f64> {
        free(machine(files).path()).map(|bytes| bytes / (1u64 << 30) as f64)
    }

    const RESIDENT: (&str, &str) = ("proc/self/status", "Name: x\nVmRSS:\t  524288 kB\n");

    fn limits(address_space: &str, data: &str) -> String {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max data size             {data}           unlimited            bytes     \n\
             Max address space         {address_space}           unlimited            bytes     \n"
        )
    }

    #[test]
    fn without_limits_it_is_what_the_machine_has() {
        let unlimited = limits("unlimited", "unlimited");
        assert_eq!(gibibytes(&[]), Some(8.0));
        let files = [RESIDENT, ("proc/self/limits", unlimited.as_str())];
        assert_eq!(gibibytes(&files), Some(8.0));
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(free(nothing.path()), None);
    }

    #[test]
    fn limits_of_the_process_leave_what_is_not_resident() {
        for (address_space, data, expected) in [
            ("2147483648", "unlimited", 1.5),
            ("unlimited", "1073741824", 0.5),
            ("2147483648", "4294967296", 1.5),
            ("1048576", "unlimited", 0.0),
            ("99999999999999", "unlimited", 8.0),
        ] {
            let limits = limits(address_space, data);
            let files = [RESIDENT, ("proc/self/limits", limits.as_str())];
            assert_eq!(gibibytes(&files), Some(expected), "{limits}");
        }
    }

    const UNIFIED: [(&str, &str); 2] = [
        ("proc/self/cgroup", "0::/user.slice/job\n"),
        (
            "proc/self/mountinfo",
            "24 1 0:22 / /proc rw - proc proc rw\n\
             30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
        ),
    ];

    #[test]
    fn the_tightest_group_of_the_path_counts() {
        let job = "sys/fs/cgroup/user.slice/job";
        let above = "sys/fs/cgroup/user.slice";
        let file = |folder: &str, name: &str| format!("{folder}/{name}");
        for (of_job, of_above, used_above, expected) in [
            ("max", "max", "0", 8.0),
            ("2147483648", "max", "0", 2.0),
            ("max", "2147483648", "1073741824", 1.0),
            ("1073741824", "4294967296", "4294967296", 0.0),
            ("1073741824", "4294967296", "1073741824", 1.0),
        ] {
            let (limit, above_limit) = (file(job, "memory.max"), file(above, "memory.max"));
            let above_usage = file(above, "memory.current");
            let mut files = UNIFIED.to_vec();
            files.push((&limit, of_job));
            files.push((&above_limit, of_above));
            files.push((&above_usage, used_above));
            let what = format!("{of_job} {of_above} {used_above}");
            assert_eq!(gibibytes(&files), Some(expected), "{what}");
        }
    }

    #[test]
    fn cached_files_of_a_group_can_be_had_again() {
        let mut files = UNIFIED.to_vec();
        files.push(("sys/fs/cgroup/memory.max", "4294967296\n"));
        files.push(("sys/fs/cgroup/memory.current", "3221225472\n"));
        let stat = "anon 1\ninactive_file 1610612736\nactive_file 536870912\n";
        files.push(("sys/fs/cgroup/memory.stat", stat));
        assert_eq!(gibibytes(&files), Some(3.0));
    }

    #[test]
    fn groups_of_version_1_are_found_inside_and_outside_of_a_container() {
        let mountinfo = |top: &str| {
            format!(
                "31 30 0:27 {top} /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 36 30 0:32 {top} /sys/fs/cgroup/memory ro master:17 - cgroup cgroup rw,memory\n"
            )
        };
        let limit = |folder: &str| format!("{folder}/memory.limit_in_bytes");
        let memory = "sys/fs/cgroup/memory";
        for (top, folder) in [
            ("/", "sys/fs/cgroup/memory/docker/abc".to_string()),
            ("/docker/abc", memory.to_string()),
            // Of another container: the group that is mounted is all that can be seen.
            ("/docker/xyz", memory.to_string()),
        ] {
            let (mountinfo, limit) = (mountinfo(top), limit(&folder));
            let files = [
                (
                    "proc/self/cgroup",
                    "5:cpu,cpuacct:/docker/cpu\n4:memory:/docker/abc\n",
                ),
                ("proc/self/mountinfo", mountinfo.as_str()),
                (limit.as_str(), "1073741824\n"),
            ];
            assert_eq!(gibibytes(&files), Some(1.0), "{top}");
        }
    }
}
