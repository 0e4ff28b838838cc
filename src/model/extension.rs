//! More tool rounds that a nested worker asked for.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LaneId, Sender};

/// What a nested worker asked for when its own cap alone kept it from going on, and what it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extension {
    /// The nested worker.
    pub lane: LaneId,
    /// Tool rounds that it had taken by then.
    pub rounds: u32,
    /// Tool rounds that were granted beyond those; 0 is a no.
    pub granted: u32,
    /// Who answered; absent where nobody did in time, which is a no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Sender>,
}

/// For example `one/1+1 asked for more than its 5 tool rounds: ada (uid 7) granted 3`.
impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane, rounds, granted, from } = self;
        write!(f, "{lane} asked for more than its {rounds} tool rounds: ")?;
        match (from, granted) {
            (None, _) => write!(f, "nobody answered"),
            (Some(from), 0) => write!(f, "{from} granted none"),
            (Some(from), granted) => write!(f, "{from} granted {granted}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_says_who_answered_what() {
        let lane = LaneId::of("one", 1).nested(1);
        let of = |granted, from| Extension { lane: lane.clone(), rounds: 5, granted, from };
        let ada = Sender::of_peer(7, Some("ada".to_owned()));
        let asked = "one/1+1 asked for more than its 5 tool rounds: ";
        for (extension, answer) in [
            (of(3, Some(ada.clone())), "ada (uid 7) granted 3"),
            (of(0, Some(ada)), "ada (uid 7) granted none"),
            (of(0, None), "nobody answered"),
        ] {
            assert_eq!(extension.to_string(), format!("{asked}{answer}"));
        }
    }
}
