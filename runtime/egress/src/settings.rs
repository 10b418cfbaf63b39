//! The import `settings`: what the operator configured for a provider, as far as the provider declared it.

use std::collections::BTreeMap;

use ccm_cloud::{Descriptor, Problem};

/// Files and values that one provider may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Files by their declared name, as the provider gets them.
    pub files: BTreeMap<String, String>,
    /// Values by their declared name, defaults included.
    pub values: BTreeMap<String, String>,
    /// `--cluster-name`
    pub cluster_name: String,
    /// `--cluster-cidr`
    pub cluster_cidrs: Vec<String>,
}

impl Settings {
    /// Takes the operator's values for the settings that `descriptor` declares; defaults fill the rest.
    ///
    /// # Errors
    ///
    /// Every value whose name is not declared, or that is not one of the allowed ones, all at once.
    pub fn set_values(
        &mut self,
        descriptor: &Descriptor,
        given: &BTreeMap<String, String>,
    ) -> Result<(), Vec<Problem>> {
        let mut problems = Vec::new();
        for (name, value) in given {
            let Some(setting) = descriptor.settings.iter().find(|setting| setting.name == *name) else {
                let known: Vec<&str> = descriptor.settings.iter().map(|setting| setting.name.as_str()).collect();
                let known = if known.is_empty() { "it has none".to_owned() } else { format!("it knows {known:?}") };
                problems.push(fatal(name, format!("{} has no such setting, {known}; leave it out", descriptor.name)));
                continue;
            };
            if !setting.allowed.is_empty() && !setting.allowed.contains(value) {
                problems.push(fatal(name, format!("{value:?} is not one of {:?}", setting.allowed)));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let defaults = descriptor.settings.iter().filter_map(|s| Some((s.name.clone(), s.default.clone()?)));
        self.values = defaults.chain(given.clone()).collect();
        Ok(())
    }
}

fn fatal(name: &str, message: String) -> Problem {
    Problem { field: format!("settings.{name}"), message, fatal: true }
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{Setting, Source, ValueKind};

    use super::*;

    fn descriptor() -> Descriptor {
        let setting = |name: &str, default: Option<&str>, allowed: &[&str]| Setting {
            name: name.into(),
            purpose: String::new(),
            kind: ValueKind::Text,
            default: default.map(Into::into),
            allowed: allowed.iter().map(|&word| word.into()).collect(),
            value: Source::default(),
        };
        Descriptor {
            name: "test".into(),
            version: String::new(),
            revision: String::new(),
            provider_id_schemes: vec![],
            files: vec![],
            endpoints: vec![],
            credentials: vec![],
            settings: vec![setting("mood", Some("grim"), &["grim", "gay"]), setting("name", None, &[])],
            annotations: vec![],
            more: BTreeMap::new(),
        }
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn what_the_operator_gives_wins_over_defaults() {
        let cases = [
            (map(&[]), map(&[("mood", "grim")])),
            (map(&[("mood", "gay")]), map(&[("mood", "gay")])),
            (map(&[("name", "x")]), map(&[("mood", "grim"), ("name", "x")])),
        ];
        for (given, values) in cases {
            let mut settings = Settings::default();
            settings.set_values(&descriptor(), &given).unwrap();
            assert_eq!(settings.values, values);
        }
    }

    #[test]
    fn all_wrong_settings_are_told_together_with_what_would_be_right() {
        let problems =
            Settings::default().set_values(&descriptor(), &map(&[("mood", "odd"), ("moood", "gay")])).unwrap_err();
        assert_eq!(
            problems,
            [
                Problem {
                    field: "settings.mood".into(),
                    message: r#""odd" is not one of ["grim", "gay"]"#.into(),
                    fatal: true
                },
                Problem {
                    field: "settings.moood".into(),
                    message: r#"test has no such setting, it knows ["mood", "name"]; leave it out"#.into(),
                    fatal: true
                },
            ]
        );
    }
}
