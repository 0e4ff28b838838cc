//! Every place where text that others wrote enters a prompt (contract C25).
//!
//! Lives here: one enumeration, with what each boundary lets in and how it is held, and the table
//! for `docs/foreign-text.md`. Never here: the fences themselves.

/// How foreign text is held at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// In a fence, always.
    Fenced,
    /// In a fence, unless the user trusts the repository that it comes from.
    FencedUnlessTrusted,
    /// In the tool role with its exact bytes, because edits need them (contract C30).
    ToolRole,
    /// In a sentence, as one neutralised line of at most 200 characters.
    Inline,
    /// As an instruction, by design; held by who may write to it (contract C26).
    Instruction,
}

impl Treatment {
    /// In words, for the table.
    fn words(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::FencedUnlessTrusted => "fenced, unless the repository is trusted",
            Self::ToolRole => "tool role, exact bytes",
            Self::Inline => "one neutralised line of at most 200 characters",
            Self::Instruction => "instruction by design",
        }
    }
}

/// A place where text that others wrote enters a prompt. A new place needs a row here: the only other
/// constructor of untrusted text is for the command `fence`, and a test looks for its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Boundary {
    /// The operator's task.
    Task,
    /// What the operator says to a worker under way.
    Steering,
    /// `AGENTS.md` of the target repository.
    RepositoryInstructions,
    /// The command line of a gate, and the directory in which it runs.
    GateCommand,
    /// What a tool gives back to a worker.
    ToolResult,
    /// What a failed gate printed, fed back to the candidate's worker.
    SteeringOutput,
    /// A candidate's diff.
    Diff,
    /// The closing words of a candidate's author.
    Answer,
    /// What a candidate's author claims.
    Claims,
    /// What a skeptic has against a claim, shown to judges and to the synthesizer.
    Refutation,
    /// What a gate printed.
    GateOutput,
    /// A file of the base commit, shown to the synthesizer.
    BaseFile,
    /// A judge's reasons, shown to the synthesizer.
    BallotReason,
    /// What was wrong with a model's reply, where it quotes the reply.
    ReplyFault,
    /// The task of a run that a side call names or sums up.
    SideTask,
    /// What a run left: for its capsule, and told to later runs as memory.
    RunDigest,
    /// A line of a background job's output that matched a watch pattern.
    JobLine,
    /// What a worker wants of a nested one.
    Subtask,
    /// A nested worker's closing words.
    SubtaskAnswer,
    /// A test that a model wrote to tell two finalists apart, shown to judges.
    DuelTest,
    /// The paths of the base, shown to the design step.
    Layout,
    /// The plan of the design step, told to workers.
    Design,
}

impl Boundary {
    /// All, in the table's order.
    pub const ALL: [Self; 22] = [
        Self::Task,
        Self::Steering,
        Self::RepositoryInstructions,
        Self::GateCommand,
        Self::ToolResult,
        Self::SteeringOutput,
        Self::Diff,
        Self::Answer,
        Self::Claims,
        Self::Refutation,
        Self::GateOutput,
        Self::BaseFile,
        Self::BallotReason,
        Self::ReplyFault,
        Self::SideTask,
        Self::RunDigest,
        Self::JobLine,
        Self::Subtask,
        Self::SubtaskAnswer,
        Self::DuelTest,
        Self::Layout,
        Self::Design,
    ];

    /// The label of its fences.
    pub fn label(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Steering => "operator steering",
            Self::RepositoryInstructions => "repository instructions",
            Self::GateCommand => "gate command",
            Self::ToolResult => "tool result",
            Self::SteeringOutput => "failed gate output",
            Self::Diff => "diff",
            Self::Answer => "author answer",
            Self::Claims => "author claims",
            Self::Refutation => "refuted claims",
            Self::GateOutput => "gate output",
            Self::BaseFile => "base file",
            Self::BallotReason => "ballot reason",
            Self::ReplyFault => "reply fault",
            Self::SideTask => "task of the run",
            Self::RunDigest => "run digest",
            Self::JobLine => "job line",
            Self::Subtask => "subtask description",
            Self::SubtaskAnswer => "subtask answer",
            Self::DuelTest => "duel test",
            Self::Layout => "repository layout",
            Self::Design => "design",
        }
    }

    /// Who writes it.
    pub fn author(self) -> &'static str {
        match self {
            Self::Task => "the operator",
            Self::Steering => "the operator, over the run's control socket",
            Self::RepositoryInstructions => "whoever may commit to the repository",
            Self::GateCommand => "the operator, or the repository's own config",
            Self::ToolResult => "the repository's files, and what inspection commands print",
            Self::SteeringOutput | Self::GateOutput => "the candidate's code and the gate's tools",
            Self::Diff => "a worker's model, or whoever made the diff elsewhere",
            Self::Answer | Self::Claims => "a worker's model",
            Self::Refutation => "a skeptic's model, which read foreign text",
            Self::BaseFile => "whoever may commit to the repository",
            Self::BallotReason => "a judge's model, which read foreign text",
            Self::ReplyFault => "a judge's or the synthesizer's model",
            Self::SideTask => "the operator, or whoever wrote the issue that it was taken from",
            Self::RunDigest => "the engine, with words of an earlier run's models and tasks",
            Self::JobLine => "the repository's files, and what inspection commands print",
            Self::Subtask => "the model of the worker that hands the work on",
            Self::SubtaskAnswer => "a nested worker's model",
            Self::DuelTest => "the model that writes duels' tests, which read foreign text",
            Self::Layout => "whoever may commit to the repository",
            Self::Design => {
                "the model that the operator names for it, and nobody else; it read foreign text"
            }
        }
    }

    /// How it is held.
    pub fn treatment(self) -> Treatment {
        match self {
            Self::Task | Self::Design | Self::Steering => Treatment::Instruction,
            Self::RepositoryInstructions => Treatment::FencedUnlessTrusted,
            Self::GateCommand => Treatment::Inline,
            Self::ToolResult => Treatment::ToolRole,
            _ => Treatment::Fenced,
        }
    }

    /// The templates that it enters, none for text that no template holds.
    pub fn templates(self) -> &'static [&'static str] {
        match self {
            Self::Task => &["worker_task", "judge", "synth", "duel", "design"],
            Self::Steering => &["steering"],
            Self::RepositoryInstructions => &["worker_task", "design"],
            Self::GateCommand => {
                &["worker_task", "gate_failure", "judge", "synth", "synth_fix", "duel", "design"]
            }
            Self::ToolResult => &[],
            Self::SteeringOutput => &["gate_failure", "synth_fix"],
            Self::Diff => &["judge", "skeptic", "synth", "capsule", "duel"],
            Self::Answer => &["judge", "synth", "capsule"],
            Self::Claims | Self::GateOutput => &["judge", "skeptic", "synth"],
            Self::Refutation => &["judge", "synth"],
            Self::SideTask => &["title", "capsule"],
            Self::RunDigest => &["worker_task", "capsule"],
            Self::BaseFile => &["synth", "duel", "design"],
            Self::BallotReason => &["synth"],
            Self::ReplyFault => &["judge_retry", "synth_retry"],
            Self::JobLine => &["job_notices"],
            Self::Subtask => &["subtask"],
            Self::SubtaskAnswer => &["subtask_result"],
            Self::DuelTest => &["judge"],
            Self::Layout => &["design"],
            Self::Design => &["worker_task"],
        }
    }
}

/// The table of all boundaries as Markdown, generated into `docs/foreign-text.md`.
pub fn table() -> String {
    let mut table =
        String::from("| Boundary | Written by | Enters | Held by |\n| --- | --- | --- | --- |\n");
    for boundary in Boundary::ALL {
        let templates = match boundary.templates() {
            [] => "the conversation's tool role".to_owned(),
            names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        table.push_str(&format!(
            "| {} | {} | {templates} | {} |\n",
            boundary.label(),
            boundary.author(),
            boundary.treatment().words(),
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test of who may write an instruction; a channel without one does not compile into this.
    fn access(boundary: Boundary) -> Option<&'static str> {
        match boundary {
            Boundary::Task => Some("tests/tidy.rs::only_the_command_line_makes_a_task"),
            Boundary::Steering => Some("tests/tidy.rs::only_the_socket_makes_a_sender"),
            Boundary::Design => {
                Some("tests/it/design.rs::nobody_but_the_planner_writes_into_the_plan")
            }
            Boundary::RepositoryInstructions
            | Boundary::GateCommand
            | Boundary::ToolResult
            | Boundary::SteeringOutput
            | Boundary::Diff
            | Boundary::Answer
            | Boundary::Claims
            | Boundary::Refutation
            | Boundary::GateOutput
            | Boundary::BaseFile
            | Boundary::BallotReason
            | Boundary::ReplyFault
            | Boundary::SideTask
            | Boundary::RunDigest
            | Boundary::JobLine
            | Boundary::Subtask
            | Boundary::SubtaskAnswer
            | Boundary::DuelTest
            | Boundary::Layout => None,
        }
    }

    // contract C26 together: every channel of instructions has a test of who may write to it
    #[test]
    fn every_instruction_has_a_test_of_who_may_write_it() {
        for boundary in Boundary::ALL {
            let is_instruction = boundary.treatment() == Treatment::Instruction;
            assert_eq!(access(boundary).is_some(), is_instruction, "{boundary:?}");
            let Some((file, name)) = access(boundary).and_then(|test| test.split_once("::")) else {
                continue;
            };
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(&format!("#[test]\nfn {name}() {{")), "{boundary:?}: {name}");
        }
    }

    // contract C25 C29
    #[test]
    fn the_page_holds_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/foreign-text.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once("<!-- boundaries -->\n").unwrap();
        let (now, after) = rest.split_once("<!-- /boundaries -->").unwrap();
        if std::env::var_os("BLESS").is_some() {
            let table = table();
            let page = format!("{before}<!-- boundaries -->\n{table}<!-- /boundaries -->{after}");
            std::fs::write(path, page).unwrap();
        } else {
            assert_eq!(now, table(), "run this test with BLESS=1 to write the table again");
        }
        assert!(page.contains("A fence lowers the odds, no more."));
    }

    #[test]
    fn all_boundaries_are_listed_once() {
        let mut all = Boundary::ALL.to_vec();
        all.dedup();
        for boundary in all {
            // Exhaustive: a new boundary has to be named there, in ALL and in the table.
            let _ = access(boundary);
            assert!(!boundary.label().is_empty());
        }
    }
}
