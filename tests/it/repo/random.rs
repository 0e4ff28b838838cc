//! Random edits: our diff is git's, byte for byte where git prints text, else by what it does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bakeoff::model::{Admission, LaneId, TreeId};
use bakeoff::patch::{Rules, admit};

use super::{Fixture, git, lend, text};

/// A small generator of repeatable choices.
pub(super) struct Choices(pub(super) u64);

impl Choices {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

pub(super) fn random_edit(root: &Path, choices: &mut Choices) {
    const NAMES: [&[u8]; 12] = [
        b"README.md",
        b"src/lib.rs",
        b"crlf.txt",
        b"run.sh",
        b"link",
        b"caf\xe9 name",
        b"bin.dat",
        b"src/deep/er/file.txt",
        b"new dir/a b",
        b"out.log",
        b"src",
        b"tab\there/\"q\"",
    ];
    let path = root.join(OsStr::from_bytes(NAMES[choices.below(NAMES.len())]));
    let clear = |path: &Path| match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    };
    let make_parent = |path: &Path| {
        for parent in path.ancestors().skip(1).take_while(|p| p.starts_with(root) && *p != root) {
            if fs::symlink_metadata(parent).is_ok_and(|m| !m.is_dir()) {
                fs::remove_file(parent).unwrap();
            }
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
    };
    let contents: [&[u8]; 6] = [
        b"",
        b"one line\n",
        b"no newline",
        b"a\r\nb\r\nc\r\n",
        b"\0\xffbinary\x01",
        b"pub fn one() -> u32 {\n    7\n}\n",
    ];
    match choices.below(6) {
        0 => clear(&path),
        1 => {
            make_parent(&path);
            clear(&path);
            symlink(["src/lib.rs", "nowhere", "/etc/passwd"][choices.below(3)], &path).unwrap();
        }
        2 if path.is_file() && !path.is_symlink() => {
            let mode = [0o644, 0o755][choices.below(2)];
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        3 if path.is_file() && !path.is_symlink() => {
            let mut bytes = fs::read(&path).unwrap();
            bytes.extend_from_slice(b"appended\n");
            fs::write(&path, bytes).unwrap();
        }
        _ => {
            make_parent(&path);
            clear(&path);
            fs::write(&path, contents[choices.below(contents.len())]).unwrap();
        }
    }
}

#[test]
fn the_diff_of_random_edits_is_gits() {
    let fixture = Fixture::sample();
    let store = fixture.store("r");
    let mut admitted = 0;
    for seed in 0..40 {
        let workspace = store.lease(&LaneId::of("a", 1)).unwrap();
        let mut choices = Choices(seed);
        for _ in 0..=choices.below(8) {
            random_edit(&workspace.path, &mut choices);
        }
        let ours = store.diff(&workspace).unwrap();
        git(&workspace.path, &["add", "-A"]);
        let args = ["diff", "--cached", "--full-index", "--binary", "--no-renames"];
        let theirs = git(&workspace.path, &args);
        if !text(&theirs).contains("GIT binary patch") {
            assert_eq!(text(&ours), text(&theirs), "seed {seed}");
        }
        // The same change between two trees of the store reads the same.
        let tree = git(&workspace.path, &["write-tree"]);
        let new = TreeId::new(text(&tree).trim());
        lend(&workspace);
        assert_eq!(text(&store.diff_trees(store.base_tree(), &new).unwrap()), text(&ours));
        // What the patch rules let through gives that tree too.
        if let Admission::Admitted { tree, .. } =
            admit(&ours, store.base_tree(), &store, &Rules::default()).unwrap()
        {
            assert_eq!(tree, new, "seed {seed}");
            admitted += 1;
        }
        // What we print gives git the tree that git itself has seen.
        git(&workspace.path, &["reset", "-q", "--hard"]);
        let patch = fixture.dir.path().join("patch");
        fs::write(&patch, &ours).unwrap();
        if !ours.is_empty() {
            git(&workspace.path, &["apply", "--cached", patch.to_str().unwrap()]);
        }
        assert_eq!(git(&workspace.path, &["write-tree"]), tree, "seed {seed}");
    }
    assert!(admitted >= 5, "only {admitted} of the random diffs are admitted");
}
