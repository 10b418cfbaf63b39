//! Judges two answers to the same question.

use ccm_cloud::{Failure, Finding, Ingress, Instance, Mark, Reaction, Standing};

/// Most bytes of a failure that are repeated.
const MAX_FAILURE: usize = 160;

/// What the answers of the new one and the last good one come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ComparisonVerdict {
    /// Nothing is lost.
    Same,
    /// The new one finds less, or something else: what, in words.
    Differs(String),
    /// The new one fails where the last good one answers.
    Fails(Failure),
    /// There is nothing to compare.
    Open {
        /// Whether the new one answered.
        is_answered: bool,
        /// Why there was no answer, where that may pass.
        passing: Option<Failure>,
    },
    /// Both find the load balancer, by a survey that did not tell both addresses.
    Found,
    /// Nobody was asked beyond the name.
    NotAsked,
}

impl ComparisonVerdict {
    /// Neither can tell, for good.
    fn open(is_answered: bool, failures: [Option<&Failure>; 2]) -> Self {
        let passing = failures.into_iter().flatten().find(|failure| may_pass(failure)).cloned();
        Self::Open { is_answered, passing }
    }

    /// The new one failed where the last good one found something.
    fn failed(failure: &Failure) -> Self {
        match failure.reaction {
            // The cloud's word, which the last good one would have had as well.
            Reaction::Throttled => Self::open(false, [Some(failure), None]),
            _ => Self::Fails(failure.clone()),
        }
    }

    /// Whether it is to be looked at once more.
    pub(super) const fn is_doubtful(&self) -> bool {
        matches!(self, Self::Differs(_) | Self::Fails(_))
    }

    /// What counts against the new one, if it is so still at the second look.
    pub(super) fn difference(&self) -> Option<String> {
        match self {
            Self::Differs(what) => Some(what.clone()),
            Self::Fails(failure) => {
                let failure = cut(&failure.to_string());
                Some(format!("it fails where the last good one answers: {failure}"))
            }
            Self::Same | Self::Open { .. } | Self::Found | Self::NotAsked => None,
        }
    }
}

/// Whether the same question may be answered later.
const fn may_pass(failure: &Failure) -> bool {
    matches!(failure.reaction, Reaction::Retry | Reaction::Throttled | Reaction::Unauthorized | Reaction::Quota)
}

fn cut(text: &str) -> String {
    match text.get(..text.floor_char_boundary(MAX_FAILURE)) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

/// How many of a kind were compared, and why not more.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) compared: usize,
    /// About which the new one said something.
    answered: usize,
    passing: Option<Failure>,
}

impl Tally {
    /// Why nothing could be compared, where that may pass. If the new one alone answers, it may be the better one.
    pub(super) fn outage(&self) -> Option<&Failure> {
        self.passing.as_ref().filter(|_| self.compared == 0 && self.answered == 0)
    }
}

impl<'a> FromIterator<&'a ComparisonVerdict> for Tally {
    fn from_iter<I: IntoIterator<Item = &'a ComparisonVerdict>>(verdicts: I) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            match verdict {
                ComparisonVerdict::Same
                | ComparisonVerdict::Differs(_)
                | ComparisonVerdict::Fails(_)
                | ComparisonVerdict::Found => tally.compared += 1,
                ComparisonVerdict::Open { is_answered, passing } => {
                    tally.answered += usize::from(*is_answered);
                    tally.passing = tally.passing.take().or_else(|| passing.clone());
                }
                ComparisonVerdict::NotAsked => {}
            }
        }
        tally
    }
}

/// Of a machine.
pub(super) fn of_machine(old: &Finding, new: &Finding) -> ComparisonVerdict {
    match (old, new) {
        (Finding::Found(old), Finding::Found(new)) => same_unless(instance(old, new)),
        (Finding::Found(_), Finding::Absent) => ComparisonVerdict::Differs(
            "it says that the machine does not exist, and the last good one finds it".to_owned(),
        ),
        (Finding::Found(_), Finding::Unknown(failure)) => ComparisonVerdict::failed(failure),
        // What is gone already can be lost by nobody.
        (Finding::Absent, Finding::Found(_) | Finding::Absent) => ComparisonVerdict::Same,
        (Finding::Absent, Finding::Unknown(failure)) => ComparisonVerdict::open(false, [Some(failure), None]),
        (Finding::Unknown(failure), Finding::Found(_) | Finding::Absent) => {
            ComparisonVerdict::open(true, [Some(failure), None])
        }
        (Finding::Unknown(old), Finding::Unknown(new)) => ComparisonVerdict::open(false, [Some(new), Some(old)]),
    }
}

fn same_unless(differs: Option<String>) -> ComparisonVerdict {
    differs.map_or(ComparisonVerdict::Same, ComparisonVerdict::Differs)
}

fn instance(old: &Instance, new: &Instance) -> Option<String> {
    let parts = [
        ("provider ID", &old.provider_id, &new.provider_id),
        ("instance type", &old.instance_type, &new.instance_type),
        ("zone", &old.zone, &new.zone),
        ("region", &old.region, &new.region),
    ];
    let part = |(name, old, new): (&str, &String, &String)| {
        (!old.is_empty() && old != new).then(|| format!("its {name} is {new:?}, and was {old:?} by the last good one"))
    };
    parts.into_iter().find_map(part).or_else(|| {
        let lost = old.addresses.iter().find(|address| !new.addresses.contains(address))?;
        Some(format!("the address {} {} of the last good one is not among its addresses", lost.kind, lost.value))
    })
}

/// Of a load balancer, by a survey.
pub(super) fn of_standing(old: &Standing, new: &Standing) -> ComparisonVerdict {
    match (old, new) {
        (Standing::InStep(old), Standing::InStep(new)) => same_unless(addresses(old, new)),
        // What it would change is for its revision to say.
        (Standing::InStep(_), Standing::Differs(_))
        | (Standing::Differs(_), Standing::InStep(_) | Standing::Differs(_)) => ComparisonVerdict::Found,
        (Standing::InStep(_) | Standing::Differs(_), Standing::Missing) => lost(),
        (Standing::InStep(_) | Standing::Differs(_), Standing::Unknown(failure)) => ComparisonVerdict::failed(failure),
        (Standing::Missing, Standing::Unknown(failure)) => ComparisonVerdict::open(false, [Some(failure), None]),
        (Standing::Missing, _) => ComparisonVerdict::Same,
        (Standing::Unknown(old), Standing::Unknown(new)) => ComparisonVerdict::open(false, [Some(new), Some(old)]),
        (Standing::Unknown(failure), _) => ComparisonVerdict::open(true, [Some(failure), None]),
    }
}

/// Of a load balancer, by a question about that one.
pub(super) fn of_places(
    old: &Result<Option<Vec<Ingress>>, Failure>,
    new: &Result<Option<Vec<Ingress>>, Failure>,
) -> ComparisonVerdict {
    of_answers(old, new, |old, new| match (old, new) {
        (Some(old), Some(new)) => same_unless(addresses(old, new)),
        (Some(_), None) => lost(),
        (None, _) => ComparisonVerdict::Same,
    })
}

/// Of the load balancer that would be changed.
pub(super) fn of_mark(old: &Result<Option<Mark>, Failure>, new: &Result<Option<Mark>, Failure>) -> ComparisonVerdict {
    of_answers(old, new, |old, new| match (old, new) {
        (Some(old), Some(new)) if old.load_balancer != new.load_balancer => ComparisonVerdict::Differs(format!(
            "it would change the load balancer {:?}, and the last good one {:?}",
            new.load_balancer, old.load_balancer
        )),
        (Some(old), None) => ComparisonVerdict::Differs(format!(
            "it would change no load balancer, and the last good one {:?}",
            old.load_balancer
        )),
        (Some(_), Some(_)) | (None, _) => ComparisonVerdict::Same,
    })
}

/// Of the name of a load balancer.
pub(super) fn of_name(old: &Result<String, Failure>, new: &Result<String, Failure>) -> ComparisonVerdict {
    of_answers(old, new, |old, new| match old == new {
        true => ComparisonVerdict::Same,
        false => {
            ComparisonVerdict::Differs(format!("it calls the load balancer {new:?}, and the last good one {old:?}"))
        }
    })
}

/// Of answers of which one is none.
pub(super) fn of_whole<T>(old: &Result<T, Failure>, new: &Result<T, Failure>) -> ComparisonVerdict {
    of_answers(old, new, |_, _| ComparisonVerdict::Same)
}

fn of_answers<T>(
    old: &Result<T, Failure>,
    new: &Result<T, Failure>,
    judge: impl FnOnce(&T, &T) -> ComparisonVerdict,
) -> ComparisonVerdict {
    match (old, new) {
        (Ok(old), Ok(new)) => judge(old, new),
        (Ok(_), Err(failure)) => ComparisonVerdict::failed(failure),
        (Err(failure), Ok(_)) => ComparisonVerdict::open(true, [Some(failure), None]),
        (Err(old), Err(new)) => ComparisonVerdict::open(false, [Some(new), Some(old)]),
    }
}

fn lost() -> ComparisonVerdict {
    ComparisonVerdict::Differs("it finds no load balancer, and the last good one finds it".to_owned())
}

fn addresses(old: &[Ingress], new: &[Ingress]) -> Option<String> {
    let (lost, told) = lost_address(old, new)?;
    Some(format!("the address of its load balancer is {told}, and {lost} by the last good one"))
}

/// An address that the new one does not tell, and what it tells. One that is being built has none yet.
pub(super) fn lost_address(old: &[Ingress], new: &[Ingress]) -> Option<(String, String)> {
    let place = |one: &Ingress| one.ip.clone().or_else(|| one.hostname.clone()).unwrap_or_default();
    let is_there = |one: &&Ingress| new.iter().any(|other| (&one.ip, &one.hostname) == (&other.ip, &other.hostname));
    let lost = old.iter().find(|one| !is_there(one))?;
    let told: Vec<String> = new.iter().map(place).collect();
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    Some((place(lost), told))
}
