//! The command line: one file per subcommand, with its arguments and its output.
//!
//! Raw flags become a `Plan` in `plan`. Never here: git, the network.

mod amount;
mod apply;
mod attach;
mod capsule;
mod completions;
mod context;
mod demo;
mod diff;
mod doctor;
mod engine;
mod error;
mod eval;
mod fence;
mod finish;
mod flags;
mod gate;
mod gc;
mod given;
mod init;
mod jobs;
mod launch;
mod log;
mod man;
mod output;
mod pick;
mod plan;
mod pour;
mod preview;
mod probe;
mod record;
mod rejudge;
mod replay;
mod resume;
mod run;
mod running;
mod runs;
mod scenario;
mod selftest;
mod shell;
mod show;
mod signals;
mod steer;
mod stop;
mod task;
mod terminal;
mod tool;
mod trust;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use context::Context;
use error::CliError;

use crate::model::Exit;

/// Run many coding agents at one task and ship only the diff that survives proof
#[derive(Debug, Parser)]
#[command(name = "bakeoff", version, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 a winner, or the thing asked for was done; 1 no winner; 2 bad usage or \
    config; 3 models could not be reached or paid; 4 a gate or the sandbox could not run; 5 a limit ended the run; \
    6 an internal or disk error; 130, 143 signals."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Pick(pick::Args),
    Gate(gate::Args),
    Demo(demo::Args),
    Runs(runs::Args),
    Show(show::Args),
    Diff(diff::Args),
    Apply(apply::Args),
    Resume(resume::Args),
    Capsule(capsule::Args),
    Rejudge(rejudge::Args),
    Replay(replay::Args),
    Eval(eval::Args),
    Jobs(jobs::Args),
    Attach(attach::Args),
    Shell(shell::Args),
    Probe(probe::Args),
    Steer(steer::Args),
    Stop(stop::Args),
    Tool(tool::Args),
    Fence(fence::Args),
    Gc(gc::Args),
    Trust(trust::Args),
    Doctor(doctor::Args),
    Init(init::Args),
    Selftest(selftest::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Parses the process's arguments, does what they ask for and says how it ended.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let exit = Context::from_process().and_then(|context| {
        log::start(context.var("BAKEOFF_LOG").as_deref())?;
        dispatch(cli.command, &context)
    });
    let exit = exit.unwrap_or_else(|error| error.report());
    ExitCode::from(exit.code())
}

/// Help and version are no errors and go to standard output; the rest is bad usage.
fn usage(error: &clap::Error) -> ExitCode {
    let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
    // A closed pipe is no reason to fail: the reader has seen enough.
    let _ = error.print();
    ExitCode::from(exit.code())
}

fn dispatch(command: Command, context: &Context) -> Result<Exit, CliError> {
    match command {
        Command::Run(args) => args.run(context),
        Command::Pick(args) => args.run(context),
        Command::Gate(args) => args.run(context),
        Command::Demo(args) => args.run(context),
        Command::Runs(args) => args.run(context),
        Command::Show(args) => args.run(context),
        Command::Diff(args) => args.run(context),
        Command::Apply(args) => args.run(context),
        Command::Resume(args) => args.run(context),
        Command::Capsule(args) => args.run(context),
        Command::Rejudge(args) => args.run(context),
        Command::Replay(args) => args.run(context),
        Command::Eval(args) => args.run(),
        Command::Jobs(args) => args.run(context),
        Command::Attach(args) => args.run(context),
        Command::Shell(args) => args.run(context),
        Command::Probe(args) => args.run(context),
        Command::Steer(args) => args.run(context),
        Command::Stop(args) => args.run(context),
        Command::Tool(args) => args.run(context),
        Command::Fence(args) => args.run(context),
        Command::Gc(args) => args.run(context),
        Command::Trust(args) => args.run(context),
        Command::Doctor(args) => args.run(context),
        Command::Init(args) => args.run(context),
        Command::Selftest(args) => args.run(context),
        Command::Completions(args) => args.run(),
        Command::Man(args) => args.run(),
    }
}

/// The whole command line as clap sees it, for completions, the manual and tests.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }

    #[test]
    fn a_number_below_zero_is_refused_as_a_number_and_not_as_an_unknown_flag() {
        use clap::builder::ValueParser;
        let ids = [
            ValueParser::from(clap::value_parser!(u32)).type_id(),
            ValueParser::from(clap::value_parser!(u64)).type_id(),
            ValueParser::from(clap::value_parser!(usize)).type_id(),
            ValueParser::from(clap::value_parser!(f64)).type_id(),
        ];
        let mut todo = vec![super::command()];
        let mut seen = 0;
        while let Some(command) = todo.pop() {
            for arg in command.get_arguments() {
                if ids.contains(&arg.get_value_parser().type_id()) {
                    seen += 1;
                    let name = command.get_name();
                    assert!(arg.is_allow_negative_numbers_set(), "{name} {}", arg.get_id());
                }
            }
            todo.extend(command.get_subcommands().cloned());
        }
        assert!(seen > 20, "{seen}");
    }
}
