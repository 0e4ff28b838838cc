//! What the engine says inside a worker's conversation. Nothing of it quotes foreign text.

/// Said once when the model stops without submitting.
pub const NUDGE: &str = "You ended your turn without calling a tool. If the work is done, call \
    `submit` with a short answer and the claims that can be checked. If it is not, go on with the \
    next tool call.";

/// Said instead when the answer was cut at the output limit.
pub const NUDGE_CUT: &str = "Your answer reached the output limit and was cut. Go on in smaller \
    steps: one short tool call at a time. Call `submit` when the work is done.";

/// The last request of a worker that a limit cut off.
pub const SUMMARIZE: &str = "A limit of this run is reached, so no tool can be called any more. Say \
    in a few sentences what you changed, what is still missing and what you are not sure of.";

/// Said to a nested worker that met its cap and may go on.
pub fn granted(rounds: u32) -> String {
    let rounds = match rounds {
        1 => "1 more tool round".to_owned(),
        rounds => format!("{rounds} more tool rounds"),
    };
    format!("The operator lets you go on: you have {rounds}. Submit before they are used up.")
}

/// A tool call behind a submission in the same turn.
pub const AFTER_SUBMIT: &str = "not executed: the work was already submitted in this turn";

/// A tool call that the output limit may have cut.
pub const CUT_CALL: &str = "not executed: the answer reached the output limit, so that this call may \
    be incomplete; make it again, in smaller steps";

/// A tool call that a limit or the operator came before.
pub const STOPPED: &str = "not executed: the run was stopped";

/// A submission beside a call that failed in the same turn.
pub const SUBMIT_HELD: &str = "not submitted: another call of this turn failed; look at its result, \
    then submit again";
