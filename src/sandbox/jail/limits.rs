//! Resource limits and the dropping of every privilege. Never here: mounts.

use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::super::warden::proto::WireSpec;
use super::view::AtStep;

/// Sets the limits of the calling process and of all that it will start.
pub(super) fn apply(spec: &WireSpec) -> Result<(), String> {
    // Not the address space: node, go and the sanitizers reserve far more than they use.
    cap(Resource::Data, spec.memory_bytes)?;
    cap(Resource::Fsize, spec.file_bytes)?;
    cap(Resource::Nproc, spec.processes)?;
    // No core file, and 1, unlike 0, also keeps the host's core handler from being started.
    cap(Resource::Core, 1)
}

fn cap(resource: Resource, limit: u64) -> Result<(), String> {
    let hard = rustix::process::getrlimit(resource).maximum;
    let limit = Some(hard.map_or(limit, |hard| hard.min(limit)));
    rustix::process::setrlimit(resource, Rlimit { current: limit, maximum: limit })
        .at_step(format_args!("set the limit {resource:?}"))
}

/// Gives up every capability for good: neither a file's bits nor user 0 can bring one back.
pub(super) fn drop_privileges() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // One that the kernel doesn't know, or that can't be dropped for want of CAP_SETPCAP, is of
        // no use without the sets below.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_no_new_privs(true).at_step("forbid new privileges")?;
    let _ = rustix::thread::clear_ambient_capability_set();
    // User 0 would get all capabilities back at execve, were it not for this.
    lock_secure_bits();
    rustix::thread::set_capabilities(None, sets).at_step("drop the capabilities")
}

fn lock_secure_bits() {
    use rustix::thread::CapabilitiesSecureBits as Bits;
    let bits = Bits::NO_ROOT
        | Bits::NO_ROOT_LOCKED
        | Bits::NO_SETUID_FIXUP
        | Bits::NO_SETUID_FIXUP_LOCKED
        | Bits::NO_CAP_AMBIENT_RAISE
        | Bits::NO_CAP_AMBIENT_RAISE_LOCKED;
    // Needs CAP_SETPCAP; without it there is no capability to keep either.
    let _ = rustix::thread::set_capabilities_secure_bits(bits);
}
