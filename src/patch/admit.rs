//! Admission: a diff against a base tree, by the rules, to the id of the tree that it gives.
//!
//! All sections read the base, none reads another's result: first every section is applied, then what
//! goes away is taken from the tree, then what is new is put into it.

use bstr::ByteSlice;

use super::apply::Applied;
use super::collide;
use super::crlf;
use super::document::{self, parse};
use super::file::{Body, FilePatch, Index, Patch};
use super::flags;
use super::links;
use super::locate::Base;
use super::mode;
use super::path;
use super::prefix::{self, Readings};
use super::refuse::{Detail, refuse};
use super::rules::Rules;
use super::tree::{Blocked, Editor, ObjectId, StoreError, TreeEntry, TreeStore};
use crate::model::{Admission, ChangeKind, FileChange, Flag, Refusal, Repair, TreeId};

/// Why admission stopped: the diff is to blame, or the store.
pub(super) enum Stop {
    Refused(Refusal),
    Store(StoreError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Reads a diff, holds it against the base tree and the rules, and gives the tree after it. A diff that
/// may not or does not apply is a refusal, not an error.
pub fn admit(
    diff: &[u8],
    base: &TreeId,
    store: &dyn TreeStore,
    rules: &Rules,
) -> Result<Admission, StoreError> {
    match parse(diff, rules).map_err(Stop::from).and_then(|patch| choose(patch, base, store, rules))
    {
        Ok(admission) => Ok(admission),
        Err(Stop::Refused(refusal)) => Ok(Admission::Refused(refusal)),
        Err(Stop::Store(error)) => Err(error),
    }
}

/// Takes the reading of the paths that the base proves. Where git's own is possible, the other one is
/// taken only if the base disproves git's.
fn choose(
    patch: Patch,
    base: &TreeId,
    store: &dyn TreeStore,
    rules: &Rules,
) -> Result<Admission, Stop> {
    let Readings { whole, cut } = prefix::readings(patch)?;
    let (whole, cut) = match (whole, cut) {
        (Some(whole), Some(cut)) => (whole, cut),
        (Some(only), None) | (None, Some(only)) => return run(only, base, store, rules),
        (None, None) => return Err(refuse("empty", "the diff changes no file").into()),
    };
    let unclear = prefix::ambiguous(&whole);
    match (run(whole, base, store, rules), run(cut, base, store, rules)) {
        (Err(Stop::Store(error)), _) | (_, Err(Stop::Store(error))) => Err(Stop::Store(error)),
        (Ok(admission), Err(Stop::Refused(refusal))) if prefix::disproves(&refusal) => {
            Ok(admission)
        }
        (Err(Stop::Refused(refusal)), Ok(admission)) if prefix::disproves(&refusal) => {
            Ok(admission)
        }
        (Err(Stop::Refused(refusal)), Err(_)) => Err(refusal.into()),
        _ => Err(unclear.into()),
    }
}

/// What a section does to the tree.
struct Step {
    remove: Option<Vec<u8>>,
    put: Option<Put>,
    change: ChangeKind,
}

struct Put {
    path: Vec<u8>,
    mode: u32,
    /// The object, when no new one has to be written.
    kept: Option<ObjectId>,
    bytes: Vec<u8>,
    /// The id that the diff says the new blob has, when it must be right.
    must_be: Option<String>,
}

fn run(
    mut patch: Patch,
    base: &TreeId,
    store: &dyn TreeStore,
    rules: &Rules,
) -> Result<Admission, Stop> {
    let mut editor = Editor::new(store, base)?;
    patch.files.iter().try_for_each(|file| check_rules(file, rules))?;
    crlf::settle(&mut patch, &mut editor, store)?;
    let mut notes = Notes { repairs: std::mem::take(&mut patch.repairs), ..Notes::default() };
    if patch.several {
        notes.flags.push(several());
    }
    let mut steps = Vec::new();
    for file in &patch.files {
        let step = section(file, &mut editor, store, rules, &mut notes)?;
        notes.files.push(file_change(file, step.change));
        steps.push(step);
    }
    notes.check_places()?;
    // Cutting prefixes can make two paths one; what the base says of a section comes first.
    document::check_paths_once(&patch)?;
    let tree = build(&steps, editor, store, base, rules)?;
    if tree == *base {
        return Err(refuse("no-change", "the diff leaves every file as it was").into());
    }
    let Notes { repairs, flags, files, .. } = notes;
    Ok(Admission::Admitted { tree, repairs, flags, files })
}

/// What is said of an admitted diff.
#[derive(Default)]
struct Notes {
    repairs: Vec<Repair>,
    flags: Vec<Flag>,
    files: Vec<FileChange>,
    /// Some hunk has no context.
    bare: bool,
    /// A hunk that has its place by its form alone.
    by_form: Option<Refusal>,
}

impl Notes {
    /// Git has to be told that hunks without context are meant, and then the form of a hunk no longer says
    /// where it stands: such a diff has two meanings.
    fn check_places(&mut self) -> Result<(), Refusal> {
        match self.by_form.take() {
            Some(refusal) if self.bare => Err(refusal),
            _ => Ok(()),
        }
    }
}

fn by_form(file: &FilePatch, hunk: usize) -> Refusal {
    let why = "the diff has hunks without context lines, and this hunk is not where its numbers say: send \
               context with all hunks";
    refuse("zero-context", why).at(file.path()).hunk(hunk)
}

fn several() -> Flag {
    let detail = "the change came in several fenced diffs, which were put together".to_owned();
    Flag { code: "several-diffs".to_owned(), path: None, detail }
}

fn file_change(file: &FilePatch, change: ChangeKind) -> FileChange {
    let (added, removed) = file.counts();
    FileChange { path: file.path().to_str_lossy().into_owned(), change, added, removed }
}

/// Paths, modes and kinds of contents, before the base is read.
fn check_rules(file: &FilePatch, rules: &Rules) -> Result<(), Refusal> {
    for named in [file.old_path(), file.new_path()].into_iter().flatten() {
        path::check(named, rules)?;
    }
    if let Some(new_mode) = file.new_mode {
        mode::check(new_mode, file.path(), rules)?;
    }
    if let Some(old_mode) = file.old_mode
        && file.change != ChangeKind::Deleted
    {
        mode::check(old_mode, file.path(), rules)?;
    }
    if matches!(file.body, Body::Binary(_)) && !rules.binary {
        let why = "binary patches are not admitted: leave the file out, or allow them in the configuration";
        return Err(refuse("binary", why).at(file.path()));
    }
    Ok(())
}

/// Applies one section.
fn section(
    file: &FilePatch,
    editor: &mut Editor<'_>,
    store: &dyn TreeStore,
    rules: &Rules,
    notes: &mut Notes,
) -> Result<Step, Stop> {
    let entry = match file.old_path() {
        Some(old) => source(file, old, editor, rules)?,
        None => None,
    };
    let old = entry.as_ref().map(|entry| contents(entry, store)).transpose()?;
    let base = base_of(file.index.as_ref(), entry.as_ref());
    let mut applied = file.apply_to(old.as_deref(), base, rules.max_binary_bytes)?;
    notes.bare |= applied.bare;
    if let Some(hunk) = applied.by_form {
        notes.by_form.get_or_insert_with(|| by_form(file, hunk));
    }
    let old_mode = entry.as_ref().map(|entry| entry.mode);
    let new_mode = file.new_path().map(|_| file.new_mode.or(old_mode).unwrap_or(mode::FILE));
    notes.flags.extend(flags::of_file(file, old_mode, new_mode, &applied));
    for (code, detail) in applied.repairs.drain(..) {
        let detail = format!("{}: {detail}", file.path().to_str_lossy());
        notes.repairs.push(Repair { code: code.to_owned(), detail });
    }
    let must_be = must_be(file, entry.as_ref(), &applied)?;
    let gone = matches!(file.change, ChangeKind::Deleted | ChangeKind::Renamed);
    let put = file.new_path().zip(new_mode).map(|(path, mode)| Put {
        path: path.to_vec(),
        mode,
        kept: entry
            .as_ref()
            .filter(|_| old.as_ref() == Some(&applied.bytes))
            .map(|entry| entry.id.clone()),
        bytes: applied.bytes,
        must_be,
    });
    Ok(Step {
        remove: file.old_path().filter(|_| gone).map(<[u8]>::to_vec),
        put,
        change: if entry.is_none() { ChangeKind::Added } else { file.change },
    })
}

/// The entry that a section changes.
fn source(
    file: &FilePatch,
    old: &[u8],
    editor: &mut Editor<'_>,
    rules: &Rules,
) -> Result<Option<TreeEntry>, Stop> {
    let Some(entry) = editor.get(old)? else {
        return match editor.obstacle(old)? {
            Some((at, mode)) => Err(not_a_directory(old, &at, mode).into()),
            None if file.may_create => Ok(None),
            None => Err(refuse("no-such-file", "the diff changes a file that is not there")
                .at(old)
                .expected(b"a file")
                .found(b"nothing")
                .into()),
        };
    };
    if entry.mode == super::tree::TREE {
        return Err(refuse("is-a-directory", "the diff changes a directory as if it were a file")
            .at(old)
            .into());
    }
    // Taking a link away is harmless; anything else with it needs the rule.
    let drops_link = file.change == ChangeKind::Deleted && entry.mode == mode::LINK;
    if !drops_link && !mode::is_file(entry.mode) {
        mode::check(entry.mode, old, rules)?;
    }
    if file.old_mode.is_some_and(|mode| mode::kind(mode) != mode::kind(entry.mode)) {
        let refusal = refuse("mode", "the file is of another kind than the diff says").at(old);
        return Err(refusal.found(format!("mode {:06o}", entry.mode).as_bytes()).into());
    }
    Ok(Some(entry))
}

fn not_a_directory(path: &[u8], at: &[u8], found: u32) -> Refusal {
    let code = if found == mode::LINK { "beyond-link" } else { "not-a-directory" };
    refuse(code, "a component of the path is not a directory").at(path).found(at)
}

/// The lines of an entry that is no directory.
pub(super) fn contents(entry: &TreeEntry, store: &dyn TreeStore) -> Result<Vec<u8>, StoreError> {
    match entry.mode {
        mode::GITLINK => Ok(format!("{GITLINK_TEXT}{}\n", entry.id.as_str()).into_bytes()),
        _ => store.blob(&entry.id),
    }
}

/// How diffs show the commit of a submodule.
const GITLINK_TEXT: &str = "Subproject commit ";

fn base_of(index: Option<&Index>, entry: Option<&TreeEntry>) -> Base {
    match (index, entry) {
        (Some(index), Some(entry)) if entry.id.as_str().starts_with(&index.old) => Base::Proven,
        (Some(_), Some(_)) => Base::Other,
        _ => Base::Unsaid,
    }
}

/// Binary contents and hunks without context are only as good as the ids beside them.
fn must_be(
    file: &FilePatch,
    entry: Option<&TreeEntry>,
    applied: &Applied,
) -> Result<Option<String>, Refusal> {
    let new = file.index.as_ref().map(|index| index.new.clone());
    if !matches!(file.body, Body::Binary(_)) {
        return Ok(new.filter(|_| applied.bare));
    }
    let full = |id: &str| matches!(id.len(), 40 | 64);
    let Some(index) = file.index.as_ref().filter(|index| full(&index.old) && full(&index.new))
    else {
        let why = "a binary patch needs the full ids on its `index` line: make it with `git diff --binary`";
        return Err(refuse("binary", why).at(file.path()));
    };
    let old_fits = match entry {
        Some(entry) => entry.id.as_str() == index.old,
        None => index.old.bytes().all(|byte| byte == b'0'),
    };
    match old_fits {
        true => Ok(new.filter(|_| file.new_path.is_some())),
        false => {
            Err(refuse("binary", "the binary patch was made from another version of the file")
                .at(file.path()))
        }
    }
}

/// Edits the tree and writes it.
fn build(
    steps: &[Step],
    mut editor: Editor<'_>,
    store: &dyn TreeStore,
    base: &TreeId,
    rules: &Rules,
) -> Result<TreeId, Stop> {
    let mut fresh = Vec::new();
    for step in steps {
        if let Some(put) = step.put.as_ref().filter(|_| brings_path(step.change)) {
            path::check_new(&put.path, rules)?;
            fresh.extend(collide::new_parts(&put.path, &mut editor)?);
        }
    }
    for removed in steps.iter().filter_map(|step| step.remove.as_deref()) {
        editor.remove(removed)?;
    }
    for step in steps {
        let Some(put) = &step.put else { continue };
        if brings_path(step.change) && editor.get(&put.path)?.is_some() {
            let why = "the diff makes a file that is there already: change it instead";
            return Err(refuse("already-exists", why).at(&put.path).into());
        }
        let id = object(put, store)?;
        match editor.put(&put.path, put.mode, id)? {
            Ok(()) => {}
            Err(Blocked::NotADirectory(at)) => {
                return Err(not_a_directory(&put.path, &at, mode::FILE).into());
            }
            Err(Blocked::IsADirectory) => {
                return Err(refuse(
                    "is-a-directory",
                    "a directory stands where the file should be",
                )
                .at(&put.path)
                .into());
            }
        }
    }
    for part in &fresh {
        collide::check(part, &mut editor)?;
    }
    Ok(editor.write(base)?)
}

fn brings_path(change: ChangeKind) -> bool {
    matches!(change, ChangeKind::Added | ChangeKind::Renamed | ChangeKind::Copied)
}

/// The object to put: the old one, a new blob, or a submodule's commit.
fn object(put: &Put, store: &dyn TreeStore) -> Result<ObjectId, Stop> {
    if put.mode == mode::LINK {
        links::check(&put.path, &put.bytes)?;
    }
    let id = match (&put.kept, put.mode) {
        (Some(kept), _) => kept.clone(),
        (None, mode::GITLINK) => gitlink(put)?,
        (None, _) => store.put_blob(&put.bytes)?,
    };
    match &put.must_be {
        Some(wanted) if !id.as_str().starts_with(wanted.as_str()) => Err(refuse(
            "wrong-result",
            "the result is not the file that the diff's `index` line names",
        )
        .at(&put.path)
        .expected(wanted.as_bytes())
        .found(id.as_str().as_bytes())
        .into()),
        _ => Ok(id),
    }
}

fn gitlink(put: &Put) -> Result<ObjectId, Refusal> {
    let text = put.bytes.to_str_lossy();
    let id = text.strip_prefix(GITLINK_TEXT).map(str::trim_end).unwrap_or_default();
    match matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(ObjectId::new(id.to_lowercase())),
        false => {
            Err(refuse("gitlink", "a submodule's section names one full commit id").at(&put.path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::MemoryStore;
    use super::*;

    struct Bench {
        store: MemoryStore,
        base: TreeId,
        rules: Rules,
    }

    impl Bench {
        fn new(files: &[(&str, &str)]) -> Self {
            let store = MemoryStore::default();
            let base = store.make(files);
            Self { store, base, rules: Rules::default() }
        }

        fn run(&self, diff: &str) -> Result<Vec<String>, String> {
            self.store.verdict(&self.base, diff, &self.rules)
        }
    }

    fn added(path: &str) -> String {
        format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n"
        )
    }

    fn deleted(path: &str) -> String {
        format!(
            "diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
        )
    }

    fn moved(word: &str, from: &str, to: &str) -> String {
        format!(
            "diff --git a/{from} b/{to}\nsimilarity index 100%\n{word} from {from}\n{word} to {to}\n"
        )
    }

    #[test]
    fn sections_read_the_base_and_not_each_other() {
        let bench = Bench::new(&[("a", "one\n"), ("b", "two\n")]);
        let swap = format!("{}{}", moved("rename", "a", "b"), moved("rename", "b", "a"));
        assert_eq!(bench.run(&swap), Ok(vec!["100644 a two\n".into(), "100644 b one\n".into()]));
        let edit = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+ONE\n";
        let copy = format!("{edit}{}", moved("copy", "a", "c"));
        let files = bench.run(&copy).unwrap();
        assert_eq!(files, ["100644 a ONE\n", "100644 b two\n", "100644 c one\n"]);
    }

    #[test]
    fn a_file_gives_way_to_a_directory_and_back() {
        let bench = Bench::new(&[("a", "old\n"), ("d/x", "old\n")]);
        let down = format!("{}{}", deleted("a"), added("a/b"));
        assert_eq!(bench.run(&down).unwrap(), ["100644 a/b new\n", "100644 d/x old\n"]);
        let up = format!("{}{}", deleted("d/x"), added("d"));
        assert_eq!(bench.run(&up).unwrap(), ["100644 a old\n", "100644 d new\n"]);
        assert_eq!(bench.run(&added("a/b")), Err("not-a-directory".into()));
        assert_eq!(bench.run(&added("d")), Err("already-exists".into()));
        assert_eq!(bench.run(&deleted("d")), Err("is-a-directory".into()));
    }

    #[test]
    fn targets_must_be_free_and_sources_there() {
        let bench = Bench::new(&[("a", "old\n"), ("b", "old\n"), ("l@", "a")]);
        assert_eq!(bench.run(&moved("rename", "a", "b")), Err("already-exists".into()));
        assert_eq!(bench.run(&moved("rename", "c", "d")), Err("no-such-file".into()));
        assert_eq!(bench.run(&moved("copy", "l", "m")), Err("link".into()));
        assert_eq!(bench.run(&deleted("l/x")), Err("beyond-link".into()));
        assert_eq!(bench.run(&added("l/x")), Err("not-a-directory".into()));
        assert_eq!(bench.run(&added("A")), Err("path-collision".into()));
        assert_eq!(bench.run(&moved("rename", "a", "A")).unwrap()[0], "100644 A old\n");
    }

    #[test]
    fn links_and_submodules_are_opened_by_rules() {
        let mut bench = Bench::new(&[("a", "old\n"), ("l@", "a")]);
        let link = "diff --git a/m b/m\nnew file mode 120000\n--- /dev/null\n+++ b/m\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n";
        let module = format!(
            "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit {}\n",
            "1".repeat(40)
        );
        let gone = "diff --git a/l b/l\ndeleted file mode 120000\n--- a/l\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n";
        assert_eq!(bench.run(link), Err("link".into()));
        assert_eq!(bench.run(&module), Err("gitlink".into()));
        assert_eq!(bench.run(gone).unwrap(), ["100644 a old\n"]);
        bench.rules = Rules { links: true, submodules: true, ..Rules::default() };
        assert_eq!(bench.run(link).unwrap()[2], "120000 m a");
        assert_eq!(bench.run(&module).unwrap()[2], format!("160000 s {}", "1".repeat(40)));
        assert_eq!(bench.run(&link.replace("+a\n", "+../a\n")), Err("link-target".into()));
        let kind = format!("{}{}", deleted("a"), link.replace("/m", "/a").replace("+a\n", "+l\n"));
        assert_eq!(bench.run(&kind).unwrap()[0], "120000 a l");
    }

    #[test]
    fn modes_come_from_the_base_unless_the_diff_changes_them() {
        let bench = Bench::new(&[("run*", "old\n")]);
        let edit = "diff --git a/run b/run\nindex 1..2 100644\n--- a/run\n+++ b/run\n@@ -1 +1 @@\n-old\n+new\n";
        assert_eq!(bench.run(edit).unwrap(), ["100755 run new\n"]);
        let mode = "diff --git a/run b/run\nold mode 100755\nnew mode 100644\n";
        assert_eq!(bench.run(mode).unwrap(), ["100644 run old\n"]);
        assert_eq!(bench.run(&mode.replace("100644", "100755")), Err("no-change".into()));
    }

    /// What a hunk's form says of its place holds only while git takes a missing context for a file's end.
    #[test]
    fn beside_hunks_without_context_every_hunk_stands_where_its_numbers_say() {
        let bench = Bench::new(&[("a", "1\n2\n3\n4\n"), ("b", "1\n2\n3\n4\n")]);
        let bare = "--- a/a\n+++ b/a\n@@ -2 +2 @@\n-2\n+x\n";
        let end = |at: usize| format!("@@ -{at},2 +{at},2 @@\n 3\n-4\n+y\n");
        let both = |at: usize| format!("{bare}{}", end(at));
        let apart = |at: usize| format!("{bare}--- a/b\n+++ b/b\n{}", end(at));
        assert!(bench.run(&both(3)).is_ok() && bench.run(&apart(3)).is_ok());
        assert_eq!(bench.run(&both(9)), Err("zero-context".into()));
        assert_eq!(bench.run(&apart(9)), Err("zero-context".into()));
        assert!(bench.run(&format!("--- a/b\n+++ b/b\n{}", end(9))).is_ok());
    }

    #[test]
    fn a_proven_base_lets_hunks_without_context_in() {
        let bench = Bench::new(&[("a", "1\n2\n3\n")]);
        let id = |bytes: &[u8]| bench.store.put_blob(bytes).unwrap().as_str().to_owned();
        let (old, new) = (id(b"1\n2\n3\n"), id(b"1\nx\n2\n3\n"));
        let diff = |old: &str, new: &str| {
            format!(
                "diff --git a/a b/a\nindex {}..{} 100644\n--- a/a\n+++ b/a\n@@ -1,0 +2 @@\n+x\n",
                &old[..7],
                &new[..7]
            )
        };
        assert_eq!(bench.run(&diff(&old, &new)).unwrap(), ["100644 a 1\nx\n2\n3\n"]);
        assert_eq!(bench.run(&diff(&new, &old)), Err("zero-context".into()));
        assert_eq!(bench.run(&diff(&old, &old)), Err("wrong-result".into()));
    }

    #[test]
    fn names_of_the_base_stay_usable_and_new_ones_are_portable() {
        let bench = Bench::new(&[("aux.c", "old\n")]);
        assert_eq!(
            bench.run(&deleted("aux.c").replace("-old", "-new")),
            Err("hunk-not-found".into())
        );
        let edit =
            "diff --git a/aux.c b/aux.c\n--- a/aux.c\n+++ b/aux.c\n@@ -1 +1 @@\n-old\n+new\n";
        assert_eq!(bench.run(edit).unwrap(), ["100644 aux.c new\n"]);
        assert_eq!(bench.run(&added("nul.c")), Err("device-name".into()));
    }

    #[test]
    fn repairs_and_flags_name_their_file() {
        let bench = Bench::new(&[("a", &"x\n".repeat(9)), ("Makefile", "old\n")]);
        let diff = "diff --git a/Makefile b/Makefile\n--- a/Makefile\n+++ b/Makefile\n@@ -1 +1,4 @@\n-old\n+new\n```\n";
        let admission = admit(diff.as_bytes(), &bench.base, &bench.store, &bench.rules).unwrap();
        let Admission::Admitted { repairs, flags, files, .. } = admission else {
            panic!("{admission:?}")
        };
        assert!(
            repairs
                .iter()
                .any(|repair| repair.code == "hunk-counts" && repair.detail.contains("Makefile"))
        );
        assert_eq!(flags[0].path.as_deref(), Some("Makefile"));
        assert_eq!((files[0].added, files[0].removed), (1, 1));
    }
}
