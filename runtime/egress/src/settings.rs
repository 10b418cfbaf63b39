//! The import `settings`: what the operator configured for a provider, as far as the provider declared it.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};

use ccm_cloud::{Descriptor, Problem, Setting, ValueKind, way_out_of};

use crate::config_file::{ConfigFile, Environment, Found, FoundValue, looks_secret, needs, resolve, veil_text};

/// Longest value that a message shows, in characters.
const MAX_SHOWN: usize = 80;

/// Files and values that one provider may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Files by their declared name, as the provider gets them: [`ConfigFile::for_guest`].
    pub files: BTreeMap<String, String>,
    /// Values by their declared name, defaults included.
    pub values: BTreeMap<String, String>,
    /// `--cluster-name`
    pub cluster_name: String,
    /// `--cluster-cidr`
    pub cluster_cidrs: Vec<String>,
}

impl Settings {
    /// Finds values for the settings that `descriptor` declares: what the operator gives, else what a file says, else a
    /// granted environment variable, else the default, which is the provider's own word and not checked. Each gets the
    /// one form of its kind: `true` and `false`, decimal numbers, durations as Go prints them, lists without blanks.
    ///
    /// A provider cannot take the name of a secret away by calling it a setting: a value whose setting, key or variable
    /// looks secret, or that is a credential, is a placeholder. That goes for text and whole numbers, not for what no
    /// secret can be, as booleans and durations.
    ///
    /// Returns the values without placeholders, to fill the `{name}` in keys with, and for nothing else.
    ///
    /// # Errors
    ///
    /// Every value whose name is not declared, that is not what its kind asks for, or not one of the allowed ones, all
    /// at once. The fields are `settings.NAME`, or the place in the file, or the variable.
    pub(crate) fn set_values(
        &mut self,
        descriptor: &Descriptor,
        given: &BTreeMap<String, String>,
        files: &BTreeMap<String, ConfigFile>,
        environment: &Environment,
    ) -> Result<BTreeMap<String, String>, Vec<Problem>> {
        let mut problems: Vec<Problem> = unknown(descriptor, given).collect();
        let mut values = BTreeMap::new();
        let mut shown = BTreeMap::new();
        for setting in in_order(&descriptor.settings) {
            let found = match given.get(&setting.name) {
                Some(value) => Some(Found::by_hand(&setting.name, value)),
                None => resolve(&setting.value, files, &values, environment),
            };
            let Some(found) = found else {
                if let Some(default) = &setting.default {
                    values.insert(setting.name.clone(), default.clone());
                    shown.insert(setting.name.clone(), default.clone());
                }
                continue;
            };
            let secret = looks_secret(&setting.name) || found.is_secret(&descriptor.credentials, files);
            match check(setting, &found.value, secret) {
                Ok(value) => {
                    shown.insert(setting.name.clone(), for_guest(setting.kind, &value, secret));
                    values.insert(setting.name.clone(), value);
                }
                Err(message) => {
                    let value = quoted(&found.value, secret);
                    problems.push(Problem { field: found.place, message: format!("{value} {message}"), fatal: true });
                }
            }
        }
        if problems.is_empty() {
            self.values = shown;
            return Ok(values);
        }
        problems.sort_by(|a, b| a.field.cmp(&b.field));
        Err(problems)
    }
}

/// What the operator gives and the provider does not know.
fn unknown<'a>(descriptor: &'a Descriptor, given: &'a BTreeMap<String, String>) -> impl Iterator<Item = Problem> + 'a {
    let known: Vec<&str> = descriptor.settings.iter().map(|setting| setting.name.as_str()).collect();
    let names = given.keys().filter(|name| !descriptor.settings.iter().any(|setting| setting.name == **name));
    names.map(move |name| {
        let way_out = way_out_of(name, &known);
        let known = if known.is_empty() { "it has none".to_owned() } else { format!("it knows {known:?}") };
        let message = format!("{} has no such setting, {known}; {way_out}", descriptor.name);
        Problem { field: format!("settings.{name}"), message, fatal: true }
    })
}

/// Settings that the keys of others need come first. Those that need each other in a circle get no help from it.
fn in_order(settings: &[Setting]) -> Vec<&Setting> {
    let mut waiting: Vec<(&Setting, BTreeSet<String>)> =
        settings.iter().map(|setting| (setting, needs(&setting.value))).collect();
    let mut ordered = Vec::new();
    while !waiting.is_empty() {
        let names: BTreeSet<&str> = waiting.iter().map(|(setting, _)| setting.name.as_str()).collect();
        let (ready, others): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, needs)| !needs.iter().any(|need| names.contains(need.as_str())));
        if ready.is_empty() {
            ordered.extend(others.into_iter().map(|(setting, _)| setting));
            break;
        }
        ordered.extend(ready.into_iter().map(|(setting, _)| setting));
        waiting = others;
    }
    ordered
}

/// Of a secret text nothing is asked: a component that lists its guesses as the allowed values would be told when one is right.
fn check(setting: &Setting, value: &FoundValue, secret: bool) -> Result<String, String> {
    if let FoundValue::Text(text) = value
        && secret
        && is_text(setting.kind)
    {
        return Ok(text.clone());
    }
    let value = kinds::normal(setting.kind, value)?;
    if secret || setting.allowed.is_empty() || setting.allowed.contains(&value) {
        Ok(value)
    } else {
        Err(format!("is not one of {:?}", setting.allowed))
    }
}

/// What a secret can be.
const fn is_text(kind: ValueKind) -> bool {
    matches!(kind, ValueKind::Text | ValueKind::Json | ValueKind::Integer)
}

fn for_guest(kind: ValueKind, value: &str, secret: bool) -> String {
    match kind {
        _ if secret && is_text(kind) && !value.is_empty() => "(secret)".to_owned(),
        ValueKind::Text | ValueKind::Json => veil_text(value),
        ValueKind::Integer | ValueKind::Boolean | ValueKind::Duration | ValueKind::PortList | ValueKind::CidrList => {
            value.to_owned()
        }
    }
}

/// A value in a message.
fn quoted(value: &FoundValue, secret: bool) -> String {
    match value {
        FoundValue::Text(text) if !secret => {
            let veiled = veil_text(text);
            let cut: String = veiled.chars().take(MAX_SHOWN).collect();
            if cut.len() < veiled.len() { format!("{:?}", format!("{cut}…")) } else { format!("{cut:?}") }
        }
        FoundValue::Text(_) => "the value, which is not shown here,".to_owned(),
        FoundValue::Blank => "the key".to_owned(),
        FoundValue::List(_) | FoundValue::Mapping => "the value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ccm_cloud::{ConfigFormat, Credential, Source};

    use super::*;

    fn setting(
        name: &str,
        kind: ValueKind,
        default: Option<&str>,
        allowed: &[&str],
        keys: &[&str],
        variables: &[&str],
    ) -> Setting {
        let strings = |words: &[&str]| words.iter().map(|&word| word.into()).collect();
        Setting {
            name: name.into(),
            purpose: String::new(),
            kind,
            default: default.map(Into::into),
            allowed: strings(allowed),
            value: Source { keys: strings(keys), environment_variables: strings(variables) },
        }
    }

    fn descriptor(settings: Vec<Setting>) -> Descriptor {
        let value = Source { keys: vec!["cloud:Global.user".into()], environment_variables: vec!["X_USER".into()] };
        let (name, purpose, uses) = ("user".into(), String::new(), vec![]);
        Descriptor {
            name: "test".into(),
            version: String::new(),
            revision: String::new(),
            provider_id_schemes: vec![],
            files: vec![],
            endpoints: vec![],
            credentials: vec![Credential { name, purpose, required: false, value, uses }],
            settings,
            annotations: vec![],
            ..Descriptor::default()
        }
    }

    fn mood_and_name() -> Descriptor {
        descriptor(vec![
            setting("mood", ValueKind::Text, Some("grim"), &["grim", "gay"], &["cloud:Global.mood"], &["X_MOOD"]),
            setting("name", ValueKind::Text, None, &[], &[], &[]),
        ])
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    fn ini(text: &str) -> BTreeMap<String, ConfigFile> {
        let file = ConfigFile::read(text.as_bytes(), ConfigFormat::Ini).unwrap();
        file.map(|file| ("cloud".to_owned(), file)).into_iter().collect()
    }

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::new(&["X_*".to_owned()], map(pairs))
    }

    #[test]
    fn what_the_operator_gives_wins_over_files_then_variables_then_defaults() {
        let cases = [
            (map(&[]), "", &[][..], map(&[("mood", "grim")])),
            (map(&[("mood", "gay")]), "", &[], map(&[("mood", "gay")])),
            (map(&[("name", "x")]), "", &[], map(&[("mood", "grim"), ("name", "x")])),
            (map(&[]), "", &[("X_MOOD", "gay")], map(&[("mood", "gay")])),
            (map(&[]), "[global]\nMood = gay", &[("X_MOOD", "odd")], map(&[("mood", "gay")])),
            (map(&[("mood", "gay")]), "[global]\nmood = odd", &[("X_MOOD", "odd")], map(&[("mood", "gay")])),
            (map(&[]), "[Global]\nmood =", &[("X_MOOD", "gay")], map(&[("mood", "gay")])),
        ];
        for (given, file, variables, values) in cases {
            let mut settings = Settings::default();
            settings.set_values(&mood_and_name(), &given, &ini(file), &environment(variables)).unwrap();
            assert_eq!(settings.values, values, "{given:?} {file:?}");
        }
    }

    #[test]
    fn keys_are_filled_with_values_and_not_with_placeholders() {
        let descriptor =
            descriptor(vec![setting("access-key-class", ValueKind::Text, None, &[], &["cloud:a.token"], &[])]);
        let mut settings = Settings::default();
        let files = ini("[a]\ntoken = my.class");
        let filled = settings.set_values(&descriptor, &BTreeMap::new(), &files, &Environment::default()).unwrap();
        assert_eq!(filled, map(&[("access-key-class", "my.class")]));
        assert_eq!(settings.values, map(&[("access-key-class", "(secret)")]));
    }

    #[test]
    fn all_wrong_settings_are_told_together_with_what_would_be_right_and_where_they_are() {
        let mut descriptor = mood_and_name();
        descriptor.settings.extend([
            setting("delay", ValueKind::Duration, None, &[], &["cloud:LoadBalancer.monitor-delay"], &[]),
            setting("count", ValueKind::Integer, None, &[], &[], &["X_COUNT"]),
            setting("rounds", ValueKind::Integer, None, &[], &["cloud:Global.password"], &[]),
            setting("region", ValueKind::Text, None, &[], &["cloud:Global.region"], &[]),
            setting("url", ValueKind::Boolean, None, &[], &["cloud:Global.url"], &[]),
        ]);
        let file = "[Global]\npassword = hunter2\nregion\nurl = https://u:hunter2@h\n[LoadBalancer]\nmonitor-delay = 5";
        let given = map(&[("mood", "odd"), ("moood", "gay")]);
        let variables = environment(&[("X_COUNT", "many")]);
        let problems = Settings::default().set_values(&descriptor, &given, &ini(file), &variables).unwrap_err();
        let told: Vec<(&str, &str)> = problems.iter().map(|p| (p.field.as_str(), p.message.as_str())).collect();
        assert_eq!(
            told,
            [
                // Nothing is said of the password: what is wrong with it would tell of it.
                (
                    "cloud:Global.region (line 3)",
                    "the key has no `=`, which only a boolean may lack; write `key = value`"
                ),
                ("cloud:Global.url (line 4)", r#""https://u:(secret)@h" is not a boolean; write true or false"#),
                (
                    "cloud:LoadBalancer.monitor-delay (line 6)",
                    r#""5" is not a duration; write it like 500ms, 90s or 1m30s"#
                ),
                (
                    "environment variable X_COUNT",
                    r#""many" is not a whole number of 64 bits; write it like 30 or 0x1e"#
                ),
                ("settings.mood", r#""odd" is not one of ["grim", "gay"]"#),
                (
                    "settings.moood",
                    r#"test has no such setting, it knows ["mood", "name", "delay", "count", "rounds", "region", "url"]; did you mean mood?"#
                ),
            ]
        );
        assert!(problems.iter().all(|problem| problem.fatal));
    }

    #[test]
    fn a_provider_gets_no_secret_by_calling_it_a_setting() {
        let text =
            |name: &str, key: &str, variable: &str| setting(name, ValueKind::Text, None, &[], &[key], &[variable]);
        let descriptor = descriptor(vec![
            text("a", "cloud:Global.PassWord", ""),
            text("b", "cloud:GLOBAL.USER", ""),
            text("c", "", "X_TOKEN"),
            text("d", "", "X_USER"),
            text("api-token", "cloud:Global.plain", ""),
            text("e", "cloud:Global.url", ""),
            text("f", "cloud:Global.empty-secret", ""),
            setting("g", ValueKind::Boolean, None, &[], &["cloud:Global.token"], &[]),
            setting("h", ValueKind::Json, None, &[], &["cloud:Global.json"], &[]),
        ]);
        let file = r#"[Global]
            password = hunter2
            user = hunter2
            plain = hunter2
            url = https://u:hunter2@h
            empty-secret =
            token
            json = "{\"password\": \"hunter2\", \"a\": 1}""#;
        let mut settings = Settings::default();
        let variables = environment(&[("X_TOKEN", "hunter2"), ("X_USER", "hunter2")]);
        settings.set_values(&descriptor, &BTreeMap::new(), &ini(file), &variables).unwrap();
        let expected = [
            ("a", "(secret)"),
            ("b", "(secret)"),
            ("c", "(secret)"),
            ("d", "(secret)"),
            ("api-token", "(secret)"),
            ("e", "https://u:(secret)@h"),
            ("f", ""),
            ("g", "true"),
            ("h", r#"{"a":1,"password":"(secret)"}"#),
        ];
        assert_eq!(settings.values, map(&expected));
    }

    /// A dictionary in `allowed`, and the gate said which word it is.
    #[test]
    fn nothing_that_is_said_of_a_setting_depends_on_the_bytes_of_a_secret() {
        let told = |password: &str| {
            let text = |name: &str, kind, allowed: &[&str], key: &str| setting(name, kind, None, allowed, &[key], &[]);
            let password_key = "cloud:Global.password";
            let descriptor = descriptor(vec![
                text("guess", ValueKind::Text, &["hunter2", "swordfish"], password_key),
                text("number", ValueKind::Integer, &[], password_key),
                text("object", ValueKind::Json, &[], password_key),
                text("allowed", ValueKind::Boolean, &["false"], "cloud:Global.token"),
            ]);
            let file = format!("[Global]\npassword = {password}\ntoken\n[hunter2]\nfound = yes");
            let mut settings = Settings::default();
            let told = settings.set_values(&descriptor, &BTreeMap::new(), &ini(&file), &Environment::default());
            (told.map(|values| values.len()).map_err(|problems| format!("{problems:?}")), settings.values)
        };
        let first = told("hunter2");
        assert_eq!(
            first.1,
            map(&[("guess", "(secret)"), ("number", "(secret)"), ("object", "(secret)"), ("allowed", "true")])
        );
        for password in ["swordfish", "123456", "{}", "another"] {
            assert_eq!(told(password), first, "{password}");
        }
    }

    #[test]
    fn a_setting_that_keys_of_others_need_is_found_before_them() {
        let text = |name: &str, key: &str| setting(name, ValueKind::Text, None, &[], &[key], &[]);
        let descriptor = descriptor(vec![
            text("subnet", "cloud:Class.{class}.subnet"),
            text("class", "cloud:Global.{where}"),
            text("where", "cloud:Global.where"),
            text("x", "cloud:Global.{y}"),
            text("y", "cloud:Global.{x}"),
            text("z", "cloud:Global.{unknown}"),
        ]);
        let file = "[Global]\nwhere = class\nclass = my.dmz\n[Class \"my.dmz\"]\nsubnet = s";
        let mut settings = Settings::default();
        settings.set_values(&descriptor, &BTreeMap::new(), &ini(file), &Environment::default()).unwrap();
        assert_eq!(settings.values, map(&[("subnet", "s"), ("class", "my.dmz"), ("where", "class")]));
    }
}
