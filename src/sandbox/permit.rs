//! Leave to run code: a proof, or an operator's waiver. Never here: anything that a model or a
//! repository says.

use super::job::SandboxError;
use super::probe::ProbeReport;
use super::tier::Tier;

/// Leave to run code. Only [`Permit::grant`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Every attack of this process's probes was stopped.
    Proof(Proof),
    /// An operator said explicitly that code may run without a proven sandbox.
    Waiver(Waiver),
}

/// The strong tier, proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Keeps the type from being made elsewhere.
    _private: (),
}

/// The best tier that this system has, unproven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiver {
    tier: Tier,
}

impl Permit {
    /// A proof when every probe of the strong tier was stopped, else a waiver when the operator
    /// gave one (`waive`).
    ///
    /// # Errors
    /// [`SandboxError::NotPermitted`] names the probes that failed and what gives the strong tier on
    /// this system (contract C18).
    pub fn grant(report: &ProbeReport, waive: bool) -> Result<Self, SandboxError> {
        if report.is_proof() {
            return Ok(Self::Proof(Proof { _private: () }));
        }
        if waive {
            return Ok(Self::Waiver(Waiver { tier: report.tier }));
        }
        Err(SandboxError::NotPermitted(format!("{}; {}", report.failures(), report.advice())))
    }

    /// The tier that jobs run in.
    pub fn tier(&self) -> Tier {
        match self {
            Self::Proof(_) => Tier::Namespaces,
            Self::Waiver(waiver) => waiver.tier,
        }
    }

    /// `proof` or `waiver`, as it stands in records.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Proof(_) => "proof",
            Self::Waiver(_) => "waiver",
        }
    }
}
