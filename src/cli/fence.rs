//! `bakeoff fence`.

use std::io::Read;

use rustix::rand::{GetRandomFlags, getrandom};

use super::context::Context;
use super::output::{tell, write_json, write_stdout};
use super::{CliError, Exit};
use crate::fence::{BLOCKS, FenceOptions, Fencer, Keep, Untrusted, delimits, read_back};
use crate::journal::Runs;

/// Fence standard input as a prompt would, and print the fence
#[derive(clap::Args, Debug)]
#[command(
    after_help = "What could pass for structure (fence markers and named delimiters however they are spelt, control tokens, \
invisible and control characters) is written as <U+XXXX>, everything else stays byte for byte. A byte that is no UTF-8 is \
written as <U+DC80> to <U+DCFF>. Notices stand before the fence. --restore gives back what was fenced."
)]
pub struct Args {
    /// What the text is; brought to at most 64 characters of A-Z a-z 0-9 . _ / - and blanks
    #[arg(long, required_unless_present = "restore")]
    label: Option<String>,
    /// One more delimiter of a block around the fence; may be given more than once. Those of prompts ('END MEMORY',
    /// 'END USER MEMORY', 'END PRIOR RUNS', 'OPERATOR STEERING') always count
    #[arg(long = "delimiter", value_name = "TEXT")]
    delimiters: Vec<String>,
    /// The most bytes of neutralised text that are kept; cut first, fenced last
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max: Option<usize>,
    /// Use the secret of this run, so that the id is the one in its prompts. Default: a new secret
    #[arg(long)]
    run: Option<String>,
    /// Print one JSON object: the text, and what was neutralised and left out
    #[arg(long)]
    json: bool,
    /// Read a fence from standard input and write the bytes that it holds
    #[arg(long, conflicts_with_all = ["label", "delimiters", "max", "run", "json"])]
    restore: bool,
}

impl Args {
    /// Reads, fences, prints.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let mut input = Vec::new();
        std::io::stdin().lock().read_to_end(&mut input).map_err(|error| {
            CliError::internal(format!("failed to read standard input: {error}"))
        })?;
        if self.restore {
            return restore(&input);
        }
        let fencer = Fencer::new(self.secret(context)?);
        let text = Untrusted::bytes(&self.label.unwrap_or_default(), &input);
        let mut delimiters = self.delimiters;
        if delimiters.iter().any(|delimiter| !delimits(delimiter)) {
            return Err(CliError::usage("--delimiter: a text of blanks alone delimits nothing"));
        }
        delimiters.extend(BLOCKS.map(String::from));
        let options = FenceOptions { delimiters, max_bytes: self.max, keep: Keep::Head };
        let fenced = fencer.fence_with(&text, &options);
        if self.json {
            write_json(&serde_json::json!({
                "version": 1,
                "label": text.label(),
                "text": fenced.text,
                "neutralised": fenced.neutralised,
                "invisible": fenced.invisible,
                "broken_bytes": fenced.broken,
                "left_out_bytes": fenced.left_out,
            }))?;
        } else {
            write_stdout(format!("{}\n", fenced.text).as_bytes())?;
        }
        Ok(Exit::Done)
    }

    fn secret(&self, context: &Context) -> Result<[u8; 32], CliError> {
        if let Some(run) = &self.run {
            return Ok(Runs::new(&context.state).find(run)?.fence_secret()?);
        }
        let mut secret = [0; 32];
        getrandom(&mut secret, GetRandomFlags::empty())
            .map_err(|error| CliError::internal(format!("failed to draw a secret: {error}")))?;
        Ok(secret)
    }
}

fn restore(input: &[u8]) -> Result<Exit, CliError> {
    let Some(bytes) = std::str::from_utf8(input).ok().and_then(read_back) else {
        tell(
            "bakeoff: standard input is not one whole fence; give it what `bakeoff fence` printed\n",
        );
        return Ok(Exit::NoWinner);
    };
    write_stdout(&bytes)?;
    Ok(Exit::Done)
}
