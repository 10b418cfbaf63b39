//! How much memory the container has, as its control group says: what all calls may have together hangs on that.

use std::path::{Path, PathBuf};

/// Version 1 writes something like that where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// The memory limit of the container of this process, in bytes; none where there is none.
#[must_use]
pub fn container_memory() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit_of(&groups, Path::new("/sys/fs/cgroup"))
}

/// The least limit of the group and of those around it. In a container, its own group may be seen as the root.
fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        let around = group.ancestors().take_while(|folder| folder.starts_with(&root)).map(PathBuf::from);
        around.filter_map(|folder| read(&folder.join(file))).min()
    };
    groups.lines().filter_map(of_line).min()
}

/// None for `max`.
fn read(file: &Path) -> Option<u64> {
    let limit: u64 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (limit < NO_LIMIT).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_around_the_process_counts() {
        type Files<'a> = &'a [(&'a str, &'a str)];
        let cases: [(&str, Files<'_>, Option<u64>); 8] = [
            ("0::/\n", &[("memory.max", "536870912\n")], Some(512 << 20)),
            ("0::/\n", &[("memory.max", "max\n")], None),
            (
                "0::/kubepods/pod1/c\n",
                &[("kubepods/memory.max", "300"), ("kubepods/pod1/c/memory.max", "max")],
                Some(300),
            ),
            ("0::/a/b\n", &[("a/memory.max", "300"), ("a/b/memory.max", "200")], Some(200)),
            // Seen from inside, where the folders of the outside are not.
            ("4:cpu:/x\n3:memory:/docker/1\n", &[("memory/memory.limit_in_bytes", "100")], Some(100)),
            ("3:memory:/\n0::/\n", &[("memory/memory.limit_in_bytes", "9223372036854771712")], None),
            ("", &[("memory.max", "100")], None),
            ("garbage\n1:\n", &[], None),
        ];
        for (groups, files, expected) in cases {
            let root = tempfile::tempdir().unwrap();
            for (name, content) in files {
                let file = root.path().join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, content).unwrap();
            }
            assert_eq!(limit_of(groups, root.path()), expected, "{groups:?} {files:?}");
        }
    }
}
