//! The examples that a build without MPI has.

use std::path::Path;

/// The names of the examples in the manifest, but for those that need MPI, which .ci/full runs.
pub(crate) fn examples() -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let examples = manifest.split("[[example]]").skip(1);
    let examples = examples.filter(|example| !example.contains("required-features = [\"mpi\"]"));
    let name = |example: &str| {
        let mut lines = example.lines();
        let name = lines.find_map(|line| line.strip_prefix("name = "));
        name.unwrap().trim_matches('"').to_string()
    };
    examples.map(name).collect()
}
