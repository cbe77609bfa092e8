//! The seccomp filter: a short BPF program that makes the named calls of every known
//! convention stop and lets all else run.

use super::arch::{self, Abi};
use super::calls::{Meaning, meaning};

/// Which calls to stop at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stops {
    /// Those that look for files, and `ptrace`.
    Lookups,
    /// One by name: for the calibration.
    One(&'static str),
}

impl Stops {
    fn names(self, name: &str) -> bool {
        match self {
            Stops::Lookups => meaning(name) != Meaning::Other,
            Stops::One(one) => name == one,
        }
    }
}

/// `SECCOMP_RET_TRACE`.
const TRACE: u32 = 0x7ff0_0000;
/// `SECCOMP_RET_ALLOW`.
const ALLOW: u32 = 0x7fff_0000;

/// The filter's instructions. A call of an unknown convention is let pass.
pub(super) fn program(stops: Stops) -> Vec<libc::sock_filter> {
    // struct seccomp_data: the number at 0, the convention at 4.
    let mut program = vec![load(4)];
    for abi in arch::abis() {
        let block = block(abi, stops);
        // The blocks are far shorter than the 255 instructions a jump can pass.
        let length = u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.push(jump_equal(abi.arch, 0, length));
        program.extend(block);
    }
    program.push(answer(ALLOW));
    program
}

/// Loads the number and compares it with each that stops.
fn block(abi: &Abi, stops: Stops) -> Vec<libc::sock_filter> {
    let stop = |(_, name): &&(u32, &str)| stops.names(name);
    let numbers: Vec<u32> = abi.names().iter().filter(stop).map(|(number, _)| *number).collect();
    let mut block = vec![load(0)];
    if abi.variant_bit != 0 {
        block.push(instruction(
            libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
            !abi.variant_bit,
            0,
            0,
        ));
    }
    for (index, number) in numbers.iter().enumerate() {
        let to_trace = u8::try_from(numbers.len() - index).unwrap_or(u8::MAX);
        block.push(jump_equal(*number, to_trace, 0));
    }
    block.extend([answer(ALLOW), answer(TRACE)]);
    block
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
    // The codes of classic BPF are all below 256.
    libc::sock_filter { code: code as u16, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does.
    fn run(program: &[libc::sock_filter], arch: u32, number: u32) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let step = &program[at];
            at += 1;
            match (step.code, step.k) {
                (0x20, 0) => accumulator = number,
                (0x20, 4) => accumulator = arch,
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
        let program = program(Stops::Lookups);
        for abi in arch::abis() {
            for (number, name) in abi.names() {
                let expected = if meaning(name) == Meaning::Other { ALLOW } else { TRACE };
                assert_eq!(run(&program, abi.arch, *number), expected, "{name}");
                let variant = number | abi.variant_bit;
                assert_eq!(run(&program, abi.arch, variant), expected, "{name}, variant");
            }
        }
        assert_eq!(run(&program, 0x1234, 2), ALLOW);
    }

    #[test]
    fn jumps_stay_within_what_a_byte_can_hold() {
        for abi in arch::abis() {
            assert!(block(abi, Stops::Lookups).len() < 200);
        }
    }
}
