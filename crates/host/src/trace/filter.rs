//! Builds the seccomp filter: a short BPF program that stops the named calls of every known calling
//! convention and allows all others.

use super::arch::{self, Abi};
use super::calls::{AT_EMPTY_PATH, Role};

/// `SECCOMP_RET_TRACE`.
const TRACE: u32 = 0x7ff0_0000;
/// `SECCOMP_RET_ALLOW`.
const ALLOW: u32 = 0x7fff_0000;

/// Returns the filter's instructions. Calls of an unknown calling convention are allowed.
pub(super) fn program() -> Vec<libc::sock_filter> {
    // struct seccomp_data has the call's number at offset 0 and the convention at 4.
    // The same number is another call in another convention, so the convention is compared first
    // (seccomp(2)).
    let mut program = vec![load(4)];
    for abi in &arch::ABIS {
        let block = block(abi);
        // A jump offset is one byte; a test asserts that the blocks are shorter than 200
        // instructions.
        let length = u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.push(jump_equal(abi.arch, 0, length));
        program.extend(block);
    }
    program.push(answer(ALLOW));
    program
}

/// Returns instructions that compare the call's number with each number that stops.
fn block(abi: &Abi) -> Vec<libc::sock_filter> {
    let numbers: Vec<(u32, Role)> =
        abi.calls().iter().map(|call| (call.0, call.2)).filter(|it| it.1 != Role::Other).collect();
    let mut block = vec![load(0)];
    if abi.variant_bit != 0 {
        block.push(instruction(
            libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
            !abi.variant_bit,
            0,
            0,
        ));
    }
    // The code after the comparisons is: allow; trace; and for each position of the flags argument,
    // a check of the flags.
    let answers = numbers.len();
    let stop = answers + 1;
    let look = |at: usize| if at == 3 { stop + 1 } else { stop + 1 + LOOK };
    for (index, (number, role)) in numbers.iter().enumerate() {
        let target = match role {
            Role::Lookup { flags: Some(at), .. } => look(*at),
            _ => stop,
        };
        let over = u8::try_from(target - index - 1).unwrap_or(u8::MAX);
        block.push(jump_equal(*number, over, 0));
    }
    block.extend([answer(ALLOW), answer(TRACE)]);
    block.extend(unless_of_descriptor(3));
    block.extend(unless_of_descriptor(2));
    block
}

/// Number of instructions of [`unless_of_descriptor`].
const LOOK: usize = 6;

/// Allows a stat of a descriptor (`AT_EMPTY_PATH` and a descriptor other than `AT_FDCWD`) and
/// traces any other. `at` is the index of the flags argument.
fn unless_of_descriptor(at: u32) -> [libc::sock_filter; LOOK] {
    /// Offset of the lower half of an argument, which comes first on a little-endian machine.
    const fn argument(at: u32) -> u32 {
        16 + 8 * at
    }
    // BPF cannot read memory. A stat with `AT_EMPTY_PATH`, a descriptor and a path that is not
    // empty is therefore not traced.
    [
        load(argument(at)),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, AT_EMPTY_PATH, 0, 2),
        load(argument(0)),
        jump_equal(libc::AT_FDCWD as u32, 0, 1),
        answer(TRACE),
        answer(ALLOW),
    ]
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn jump_equal(value: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, if_so, if_not)
}

fn answer(value: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, value, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    // All codes of classic BPF are below 256.
    libc::sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interprets the filter as the kernel does.
    fn run(program: &[libc::sock_filter], arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let step = &program[at];
            at += 1;
            match (step.code, step.k) {
                (0x20, 0) => accumulator = number,
                (0x20, 4) => accumulator = arch,
                (0x20, at) => accumulator = args[(at as usize - 16) / 8] as u32,
                (0x45, mask) if accumulator & mask != 0 => at += usize::from(step.jt),
                (0x45, _) => at += usize::from(step.jf),
                (0x54, mask) => accumulator &= mask,
                (0x15, value) if accumulator == value => at += usize::from(step.jt),
                (0x15, _) => at += usize::from(step.jf),
                (0x06, answer) => return answer,
                other => panic!("an instruction nobody wrote: {other:?}"),
            }
        }
    }

    #[test]
    fn exactly_the_calls_that_look_for_files_stop_in_every_convention() {
        let program = program();
        for abi in &arch::ABIS {
            for &(number, name, role) in abi.calls() {
                let expected = if role == Role::Other { ALLOW } else { TRACE };
                assert_eq!(run(&program, abi.arch, number, [3; 6]), expected, "{name}");
                let variant = number | abi.variant_bit;
                assert_eq!(run(&program, abi.arch, variant, [3; 6]), expected, "{name}, variant");
            }
        }
        assert_eq!(run(&program, 0x1234, 2, [0; 6]), ALLOW);
    }

    #[test]
    fn a_stat_of_a_descriptor_does_not_stop() {
        let program = program();
        let (flag, cwd) = (u64::from(AT_EMPTY_PATH), libc::AT_FDCWD as u32 as u64);
        for abi in &arch::ABIS {
            for &(number, name, role) in abi.calls() {
                let Role::Lookup { flags: Some(at), .. } = role else { continue };
                let mut args = [0; 6];
                assert_eq!(run(&program, abi.arch, number, args), TRACE, "{name}");
                args[at] = flag | 0x100;
                assert_eq!(run(&program, abi.arch, number, args), ALLOW, "{name}");
                assert!(crate::trace::calls::is_of_descriptor(Some(at), &args));
                args[0] = cwd;
                assert_eq!(run(&program, abi.arch, number, args), TRACE, "{name}");
                assert!(!crate::trace::calls::is_of_descriptor(Some(at), &args));
            }
        }
    }

    #[test]
    fn jumps_stay_within_what_a_byte_can_hold() {
        for abi in &arch::ABIS {
            assert!(block(abi).len() < 200);
        }
    }
}
