//! The tool `run_bash`: one inspection command, in the sandbox, never through a shell.
//!
//! The allow-list (`allow`) decides by the text; what the words lead to on disk is looked at here; and
//! the job sees the workspace read-only, so that a miss of the list is contained.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::fs::FileType;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::allow::{self, Allowed, GitUse, PathUse, Place};
use super::files::{FileError, Files, RelPath};
use super::git_env::{self, GitPlace};
use super::staged::Staged;
use super::{Tool, ToolContext, ToolOutput, args, need_directory, secrets};
use crate::jobs::{Order, Watch};
use crate::model::chat::ToolSpec;
use crate::model::clip;
use crate::repo::{Staging, Workspace};
use crate::sandbox::toolchain::Git;
use crate::sandbox::{JobExit, JobSpec, JobStatus, Launch, Limits, Mount, Network, SandboxError};

/// How long a command may take.
const WALL: Duration = Duration::from_secs(20);
/// The most bytes of output that are kept, head and tail.
const MAX_OUTPUT: usize = 48 * 1024;

/// Memory of a command that is waited for, in bytes.
const MEMORY: u64 = 1 << 30;
/// The same in the background, where a worker may have 16 of them: 8 GiB together.
const BACKGROUND_MEMORY: u64 = 512 << 20;

/// The most that a command may write, in bytes.
const MOST_DISK: u64 = 1 << 30;

/// The longest command line in a list, in bytes.
const MAX_LABEL: usize = 200;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command line, or its words one by one.
    command: Command,
    /// The directory to run in, relative to the workspace's top. Default: the top.
    dir: Option<String>,
    /// Start it as a job and answer with its id at once; bash_jobs reads and ends it. Default: false.
    background: Option<bool>,
    /// For a background job: tell me when a line of its output matches this regular expression.
    watch: Option<String>,
}

/// A command as a line or as words.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "command is a string, or a list of strings")]
enum Command {
    /// A line.
    Line(String),
    /// Words.
    Words(Vec<String>),
}

impl Command {
    /// As one line, for lists.
    fn line(&self) -> String {
        let line = match self {
            Self::Line(line) => line.clone(),
            Self::Words(words) => words.join(" "),
        };
        clip(&line.replace(char::is_control, " "), MAX_LABEL).text
    }
}

/// Runs an inspection command.
#[derive(Debug, Default)]
pub struct RunBash {
    /// The git that runs, or why none may; without either the one of the job's `PATH`.
    git: Option<Result<Git, String>>,
}

impl RunBash {
    /// With the git that was found, or why there is none.
    pub fn with_git(git: Result<Git, String>) -> Self {
        Self { git: Some(git) }
    }
}

impl Tool for RunBash {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>("run_bash", &description())
    }

    fn call<'a>(&'a self, context: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        async move { run(context, arguments, self.git.as_ref()).await.unwrap_or_else(|refusal| refusal) }.boxed()
    }
}

fn description() -> String {
    let git: Vec<String> = allow::SUBCOMMANDS.iter().map(allow::Subcommand::title).collect();
    format!(
        "Runs one inspection command in the workspace, without a shell (no pipes, lists, redirections, variables or patterns) and without network: {}, and git with {}. Nothing is built or tested here: that happens after submit.",
        allow::COMMANDS[..allow::COMMANDS.len() - 1].join(", "),
        git.join(", ")
    )
}

async fn run(
    context: &ToolContext,
    arguments: Value,
    git: Option<&Result<Git, String>>,
) -> Result<ToolOutput, ToolOutput> {
    let arguments: Arguments = args::parse("run_bash", arguments)?;
    need_directory(context)?;
    let Prepared { mut spec, staging } = prepare(context, &arguments).map_err(|why| {
        ToolOutput::refused(format!(
            "refused: {why}. Nothing was run. run_bash takes one inspection command at a time"
        ))
    })?;
    let Some(launch) = &context.launch else {
        return Err(ToolOutput::refused(
            "refused: no sandbox, no execution; use read_file, list_dir, glob and grep instead",
        ));
    };
    let is_recursive = spec.argv.iter().any(|word| word == "--exclude-dir=.git");
    let tells_addresses = tells_addresses(&spec);
    let background = arguments.background == Some(true);
    if background && tells_addresses {
        let why = "refused: git remote with addresses can't run in the background. Nothing was run";
        return Err(ToolOutput::refused(why));
    }
    use_git(&mut spec, git)?;
    let launch = Staged::new(&**launch, staging);
    if background {
        return start(context, &launch, spec, arguments);
    }
    match launch.run(spec, &context.cancel).await {
        Ok(exit) if tells_addresses => {
            let output = answer(&exit);
            Ok(ToolOutput { text: without_passwords(&output.text), ..output })
        }
        Ok(exit) if is_recursive => {
            let output = answer(&exit);
            Ok(ToolOutput {
                text: format!("{}\n{}", output.text.trim_end(), allow::LEFT_OUT),
                ..output
            })
        }
        Ok(exit) => Ok(answer(&exit)),
        Err(error @ SandboxError::NotTaken(_)) => Err(ToolOutput::refused(error.to_string())),
        Err(error) => Err(ToolOutput::refused(format!("the command was not run: {error}"))),
    }
}

/// Puts the git that was found in place of the name.
fn use_git(spec: &mut JobSpec, git: Option<&Result<Git, String>>) -> Result<(), ToolOutput> {
    let (Some(git), true) = (git, spec.argv[0] == "git") else { return Ok(()) };
    let git = git.as_ref().map_err(|why| {
        ToolOutput::refused(format!("refused: no git can run here: {why}. Nothing was run"))
    })?;
    spec.argv[0] = git.program.clone().into_os_string();
    // What the command looks at comes after, so that it is seen wherever it stands.
    spec.mounts.splice(0..0, git.mounts.iter().cloned());
    Ok(())
}

/// Starts a command that passed as a background job (contract C1). It is the same job: one list of
/// commands, one check and one sandbox for both ways (contract C11).
fn start(
    context: &ToolContext,
    launch: &dyn Launch,
    mut spec: JobSpec,
    arguments: Arguments,
) -> Result<ToolOutput, ToolOutput> {
    let refused = |why: String| ToolOutput::refused(format!("refused: {why}. Nothing was run"));
    let Some(jobs) = &context.jobs else {
        return Err(refused("nothing can run in the background here".to_owned()));
    };
    let watch = arguments.watch.as_deref().map(Watch::new).transpose().map_err(refused)?;
    let label = arguments.command.line();
    spec.limits.memory_bytes = BACKGROUND_MEMORY;
    let (lease, by) = (context.workspace.id.clone(), context.number);
    let order = Order { spec, lease, label, by, watch };
    let id = jobs.table.start(launch, order).map_err(refused)?;
    let text = format!(
        "started job {id}. bash_jobs reads its output and ends it; you are told when it has ended"
    );
    Ok(ToolOutput { handle: Some(id.to_string()), ..ToolOutput::ok(text) })
}

/// A command that passes.
struct Prepared {
    spec: JobSpec,
    /// Where it stages.
    staging: Option<Staging>,
}

fn prepare(context: &ToolContext, arguments: &Arguments) -> Result<Prepared, String> {
    if arguments.watch.is_some() && arguments.background != Some(true) {
        return Err("watch is for background jobs: set background, too".to_owned());
    }
    let files = Files::new(&context.workspace);
    let cwd = directory(files, arguments.dir.as_deref())?;
    let place = Place { base: &context.workspace.path, cwd: &cwd };
    let allowed = match &arguments.command {
        Command::Line(line) => allow::check_line(line, &place)?,
        Command::Words(words) => allow::check_words(words, &place)?,
    };
    for path in &allowed.paths {
        check_on_disk(files, path)?;
    }
    job(context, &cwd, allowed)
}

/// The directory to run in, links resolved.
fn directory(files: Files<'_>, dir: Option<&str>) -> Result<RelPath, String> {
    let Some(dir) = dir else { return Ok(RelPath::top()) };
    let told = |error: FileError| error.to_string();
    let (path, stat) = files.stat(&files.locate(dir).map_err(told)?).map_err(told)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(path),
        _ => Err(told(FileError::NotDirectory { path: dir.to_owned() })),
    }
}

/// Refuses a path that leads out, into `.git`, to a secret, or to what is neither file nor directory.
/// One that is not there is left to the command, whose words about it a model knows.
fn check_on_disk(files: Files<'_>, named: &PathUse) -> Result<(), String> {
    let path = &named.path;
    let looked = if named.follows { files.stat(path) } else { stat_of_name(files, path) };
    let missing = || FileError::NotFound { path: path.display() }.to_string();
    match looked {
        Ok((resolved, stat)) => {
            let kind = FileType::from_raw_mode(stat.st_mode);
            if named.shows && secrets::is_secret(resolved.as_path()) {
                return Err(FileError::Secret { path: path.display() }.to_string());
            }
            let plain =
                matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink);
            if plain {
                Ok(())
            } else {
                Err(FileError::Special { path: path.display(), kind: "special file" }.to_string())
            }
        }
        Err(FileError::NotFound { .. } | FileError::NotDirectory { .. }) if named.must_exist => {
            Err(missing())
        }
        Err(FileError::NotFound { .. } | FileError::NotDirectory { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// What stands at a name, a link as such: its directory's links are resolved alone.
fn stat_of_name(
    files: Files<'_>,
    path: &RelPath,
) -> Result<(RelPath, rustix::fs::Stat), FileError> {
    match path.parent() {
        Some(parent) => files.stat_in(&parent, path.name().unwrap_or_default()),
        None => files.stat(path),
    }
}

fn job(context: &ToolContext, cwd: &RelPath, allowed: Allowed) -> Result<Prepared, String> {
    let workspace = &context.workspace;
    let mut spec = JobSpec {
        token: context.token.clone(),
        label: format!("run_bash {}", allowed.argv[0]),
        argv: allowed.argv.iter().map(OsString::from).collect(),
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("LC_ALL".into(), "C.UTF-8".into()),
            ("HOME".into(), "/nonexistent".into()),
        ],
        cwd: workspace.path.join(cwd.as_path()),
        mounts: vec![workspace.mount(false)],
        network: Network::Off,
        limits: Limits {
            wall: WALL,
            memory_bytes: MEMORY,
            processes: 64,
            file_bytes: 1 << 30,
            output_bytes: MAX_OUTPUT,
            disk_bytes: MOST_DISK,
            ..Limits::default()
        },
        stdin: Vec::new(),
    };
    let staging = match allowed.git {
        None => None,
        Some(GitUse::Nothing) => {
            spec.env.extend(git_env::fixed_env());
            None
        }
        Some(GitUse::Stages) if context.read_only => {
            return Err("the workspace is read-only for you".to_owned());
        }
        Some(git) => lead_git(workspace, git, &allowed, &mut spec)?,
    };
    Ok(Prepared { spec, staging })
}

/// Leads git to the workspace's repository, where it writes nothing; and one that stages to a place for that.
fn lead_git(
    workspace: &Workspace,
    git: GitUse,
    allowed: &Allowed,
    spec: &mut JobSpec,
) -> Result<Option<Staging>, String> {
    workspace.ready_for_git().map_err(|error| error.to_string())?;
    let place = GitPlace::of(workspace).ok_or("the workspace is in no git repository")?;
    let known = place.known()?;
    spec.env.extend(place.env(&known));
    spec.mounts = git_mounts(workspace, &place);
    // A call works on its workspace alone, also where git would take the whole working tree. With a path
    // `git reset` writes nothing but the index.
    if allowed.whole {
        spec.argv.push(place.only(workspace));
    }
    // `git`, `--no-pager`, and the subcommand.
    if allowed.argv.get(2).is_some_and(|name| name == "add" || name == "rm") {
        if known.sha256 {
            return Err("git add and git rm are not run in a repository with SHA-256 object names: from its index it can't be told which \
                        repositories stand within it, in which git would be started".to_owned());
        }
        spec.argv.extend(place.without_embedded(workspace)?);
    }
    if git != GitUse::Stages {
        return Ok(None);
    }
    let staging = place.stage().map_err(|error| error.to_string())?;
    spec.env.extend(staging.env(&place.alternates));
    spec.mounts.push(writable(&staging.dir()));
    Ok(Some(staging))
}

/// The workspace and its git directory, read-only.
fn git_mounts(workspace: &Workspace, place: &GitPlace) -> Vec<Mount> {
    // A workspace below the top of its repository is seen with the whole of it.
    let below = workspace.path != place.top && workspace.path.starts_with(&place.top);
    let mut mounts = vec![if below { read_only(&place.top) } else { workspace.mount(false) }];
    mounts.extend(place.alternates.iter().map(|path| read_only(path)));
    mounts.push(read_only(&place.common));
    mounts.push(read_only(&place.git_dir));
    mounts
}

/// The git directory of a workspace, for a command of the operator's, which may commit there. None of it where
/// the workspace has none.
///
/// # Errors
/// In words, when it can't be made ready.
pub fn git_view(workspace: &Workspace) -> Result<Vec<Mount>, String> {
    workspace.ready_for_git().map_err(|error| error.to_string())?;
    let Some(place) = GitPlace::of(workspace) else { return Ok(Vec::new()) };
    let mut mounts: Vec<Mount> = place.alternates.iter().map(|path| read_only(path)).collect();
    mounts.push(writable(&place.common));
    if place.git_dir != place.common {
        mounts.push(writable(&place.git_dir));
    }
    Ok(mounts)
}

fn read_only(path: &Path) -> Mount {
    Mount::ReadOnly { from: path.to_owned(), at: path.to_owned() }
}

fn writable(path: &Path) -> Mount {
    let path = PathBuf::from(path);
    Mount::ReadWrite { from: path.clone(), at: path }
}

/// Whether a command prints addresses of remotes, which may hold a name and a password.
fn tells_addresses(spec: &JobSpec) -> bool {
    spec.argv.first().is_some_and(|program| program == "git")
        && spec.argv.get(2).is_some_and(|name| name == "remote")
}

/// Takes what stands between `://` and the last `@` of an address out of a text.
fn without_passwords(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        match (word.find("://"), word.rfind('@')) {
            (Some(scheme), Some(at)) if scheme + 3 < at => {
                masked.push_str(&word[..scheme + 3]);
                masked.push_str("[masked]");
                masked.push_str(&word[at..]);
            }
            _ => masked.push_str(word),
        }
    }
    masked
}

/// One line on how it ended, then its output.
fn answer(exit: &JobExit) -> ToolOutput {
    let (how, is_error) = match exit.status {
        JobStatus::Exited(code) => (format!("exit {code}"), false),
        JobStatus::Signalled(9) => {
            let most = MEMORY >> 20;
            let why = format!("perhaps for want of memory, of which it has {most} MiB");
            (format!("ended by signal 9, {why}"), true)
        }
        JobStatus::Signalled(signal) => (format!("ended by signal {signal}"), true),
        JobStatus::TimedOut => {
            let seconds = WALL.as_secs();
            let more = "background gives it longer";
            (format!("stopped after {seconds} seconds ({more}); its output so far follows"), true)
        }
        JobStatus::DiskLimit { held, left } => {
            let most = left.is_none().then(|| format!("; {} MiB are the most", MOST_DISK >> 20));
            let words = JobStatus::disk_words(held, left);
            (format!("stopped: {words}{}", most.unwrap_or_default()), true)
        }
        JobStatus::Killed => ("stopped by the engine".to_owned(), true),
    };
    let dropped = match exit.dropped {
        0 => String::new(),
        bytes => format!("; {bytes} bytes of output were left out of its middle"),
    };
    let body = clip(&String::from_utf8_lossy(&exit.output), MAX_OUTPUT).text;
    ToolOutput { is_error, ..ToolOutput::ok(format!("[{how}{dropped}]\n{body}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_masked() {
        for (text, masked) in [
            (
                "origin\thttps://me:s3c@h.example/r (fetch)\n",
                "origin\thttps://[masked]@h.example/r (fetch)\n",
            ),
            ("https://me:a@b@h/r@v1\n", "https://[masked]@v1\n"),
            ("git@h.example:me/r.git\n", "git@h.example:me/r.git\n"),
            ("https://h.example/r\n", "https://h.example/r\n"),
        ] {
            assert_eq!(without_passwords(text), masked);
        }
    }
}
