//! The instance type of a machine that nobody gave one: its size, as VirtualBox machines were named in the original
//! demonstration (`vbox.vm.1g.2cpu`).

use ccm_sdk::types::{Attributes, Failure};

use crate::quantity::Quantity;

const MIB: u128 = 1 << 20;
const GIB: u128 = 1 << 30;
/// Below this, sizes are told apart by 256 MiB, above by 1 GiB.
const FINE_BELOW: u128 = 4 * GIB;
const FINE_STEP: u128 = 256 * MIB;

/// The type after `status.capacity`. Kubelets report less memory than the machine has, so memory is rounded up.
///
/// # Errors
///
/// `retry` while the kubelet has not reported both values, `invalid` when one cannot be read.
pub(crate) fn instance_type(capacity: &Attributes) -> Result<String, Failure> {
    let memory = value(capacity, "memory")?.rounded_up();
    let cpus = value(capacity, "cpu")?.rounded_down().max(1);
    let memory = memory.next_multiple_of(if memory < FINE_BELOW { FINE_STEP } else { GIB });
    let (memory, unit) = if memory.is_multiple_of(GIB) { (memory / GIB, "g") } else { (memory / MIB, "mb") };
    Ok(format!("vbox.vm.{}{unit}.{}cpu", shown(memory), shown(cpus)))
}

/// No machine is so large that this is wrong, and code that writes `u128` is 2 KB.
fn shown(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn value(capacity: &Attributes, name: &str) -> Result<Quantity, Failure> {
    let text = capacity.iter().find_map(|(key, value)| (key == name).then_some(value));
    let quantity = text.map(|text| {
        text.parse::<Quantity>().map_err(|reason| Failure::invalid(reason).field(format!("status.capacity[{name}]")))
    });
    // A kubelet that has not looked yet reports zero.
    match quantity.transpose()? {
        Some(quantity) if quantity.rounded_up() > 0 => Ok(quantity),
        _ => Err(Failure::retry("capacity not reported yet")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(cpu: &str, memory: &str) -> Attributes {
        vec![("cpu".to_owned(), cpu.to_owned()), ("memory".to_owned(), memory.to_owned())]
    }

    #[test]
    fn a_type_names_memory_rounded_up_and_cores_rounded_down() {
        let cases = [
            ("2", "1004392Ki", "vbox.vm.1g.2cpu"),
            ("1", "500000Ki", "vbox.vm.512mb.1cpu"),
            ("8", "16273172Ki", "vbox.vm.16g.8cpu"),
            ("1500m", "1Gi", "vbox.vm.1g.1cpu"),
            ("500m", "1", "vbox.vm.256mb.1cpu"),
            ("2", "1537Mi", "vbox.vm.1792mb.2cpu"),
            ("2", "1536Mi", "vbox.vm.1536mb.2cpu"),
            ("2", "4095Mi", "vbox.vm.4g.2cpu"),
            ("2", "4Gi", "vbox.vm.4g.2cpu"),
            ("2", "4097Mi", "vbox.vm.5g.2cpu"),
        ];
        for (cpu, memory, expected) in cases {
            assert_eq!(instance_type(&capacity(cpu, memory)), Ok(expected.to_owned()), "{cpu} {memory}");
        }
    }

    #[test]
    fn without_capacity_the_answer_is_to_ask_again() {
        let incomplete = [vec![], capacity("2", "0"), vec![("cpu".to_owned(), "2".to_owned())]];
        for capacity in incomplete {
            assert_eq!(instance_type(&capacity), Err(Failure::retry("capacity not reported yet")), "{capacity:?}");
        }
    }

    #[test]
    fn a_capacity_that_cannot_be_read_is_named() {
        assert_eq!(
            instance_type(&capacity("two", "1Gi")),
            Err(Failure::invalid("\"two\" is not a quantity; `1500m` or `2Gi` would be").field("status.capacity[cpu]"))
        );
    }
}
