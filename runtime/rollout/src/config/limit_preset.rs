//! The defaults of limits, for components that have little in common: ours have 0.2 MB, an interpreter in one has 18 MB.

use std::str::FromStr;
use std::time::Duration;

use ccm_sandbox::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The defaults of the limits. What is given itself wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitPreset {
    /// For compiled languages, and small runtimes.
    #[default]
    Standard,
    /// For a component that contains a large runtime of its language, such as CPython or SpiderMonkey.
    LargeRuntime,
}

impl LimitPreset {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Standard, Self::LargeRuntime];

    /// As operators write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::LargeRuntime => "large-runtime",
        }
    }

    /// Largest component in its source, in bytes. Packed, CPython and its standard library have 6 MB.
    pub(super) const fn source_bytes(self) -> usize {
        match self {
            Self::Standard => 4 << 20,
            Self::LargeRuntime => 64 << 20,
        }
    }

    /// What a component may take.
    pub(super) fn sandbox(self) -> Limits {
        let standard = Limits::default();
        match self {
            Self::Standard => standard,
            Self::LargeRuntime => Limits {
                // CPython and its standard library: 18 MB.
                component_bytes: 64 << 20,
                // Its largest function has more than 256 KiB.
                function_bytes: 1 << 20,
                memory_bytes: 256 << 20,
                // Each library in C that a Python provider brings along is one.
                instances: 64,
                // An interpreter is some fifty times slower than what is compiled.
                call_cpu: Duration::from_secs(10),
                ..standard
            },
        }
    }
}

impl FromStr for LimitPreset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let preset = Self::ALL.into_iter().find(|preset| preset.as_str() == text);
        preset.ok_or_else(|| format!("{text:?} is neither standard nor large-runtime"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::limits::{LimitSettings, ProviderLimits};

    fn resolved(preset: LimitPreset, given: &[(&str, &str)]) -> ProviderLimits {
        let pairs: Vec<_> = given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        LimitSettings::from_pairs(&pairs).unwrap().resolve(preset).unwrap()
    }

    /// Each limit of the preset, as an operator could give it without the preset.
    const LARGE_RUNTIME: [(&str, &str); 6] = [
        ("source-bytes", "64MiB"),
        ("component-bytes", "64MiB"),
        ("function-bytes", "1MiB"),
        ("memory-bytes", "256MiB"),
        ("instances", "64"),
        ("call-cpu", "10s"),
    ];

    #[test]
    fn a_large_runtime_gets_these_limits_and_no_others() {
        assert_eq!(
            resolved(LimitPreset::LargeRuntime, &[]),
            resolved(LimitPreset::Standard, &LARGE_RUNTIME),
            "the preset is what these limits are together"
        );
        for left_out in 0..LARGE_RUNTIME.len() {
            let mut fewer = LARGE_RUNTIME.to_vec();
            let (name, _) = fewer.remove(left_out);
            let without = resolved(LimitPreset::Standard, &fewer);
            assert_ne!(resolved(LimitPreset::LargeRuntime, &[]), without, "the preset sets {name}");
        }
    }

    #[test]
    fn a_limit_that_is_given_wins_over_the_preset_whichever_is_larger() {
        for (name, value) in [
            ("source-bytes", "1MiB"),
            ("component-bytes", "128MiB"),
            ("function-bytes", "512KiB"),
            ("memory-bytes", "16MiB"),
            ("instances", "5"),
            ("call-cpu", "1s"),
        ] {
            let mut given = LARGE_RUNTIME;
            given.iter_mut().find(|(of, _)| *of == name).unwrap().1 = value;
            let wanted = resolved(LimitPreset::Standard, &given);
            assert_eq!(resolved(LimitPreset::LargeRuntime, &[(name, value)]), wanted, "{name}");
        }
    }

    #[test]
    fn the_documentation_has_each_limit_of_the_preset() {
        let page = include_str!("../../../../docs/reference/limits.md");
        let rows: Vec<&str> =
            page.lines().filter(|line| line.matches('|').count() == 4 && line.ends_with(" |")).collect();
        let documented = |name: &str, value: &str| {
            rows.iter().filter(|row| row.starts_with(&format!("| `{name}` | {value} | "))).count()
        };
        for (name, value) in LARGE_RUNTIME {
            assert_eq!(documented(name, value), 1, "{name} {value}");
        }
    }

    #[test]
    fn a_preset_is_known_by_its_name() {
        for preset in LimitPreset::ALL {
            assert_eq!(preset.as_str().parse(), Ok(preset));
            assert_eq!(serde_json::to_value(preset).unwrap(), preset.as_str());
        }
        let error = "huge".parse::<LimitPreset>().unwrap_err();
        assert_eq!(error, "\"huge\" is neither standard nor large-runtime");
    }
}
