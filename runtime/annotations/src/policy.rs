//! The annotations as admission policies, written in CEL, which the API server evaluates itself. One policy denies what the component refuses;
//! another one warns of what it accepts, and of names that it does not know. Neither denies what the webhook would let through.

use std::fmt::Write as _;

use anyhow::Result;
use ccm_cloud::{Annotation, Descriptor};
use ccm_controllers::{ORPHAN, annotation_prefixes};

use super::probe::{Probed, WrongValue};
use super::value::{expression, form, literal};

/// A check of one policy.
struct Validation {
    expression: String,
    /// Where the expression of the message cannot be evaluated.
    message: String,
    /// CEL.
    told: String,
}

/// Both policies with their bindings, as YAML.
pub(crate) fn policies(descriptor: &Descriptor, probed: &Probed, classes: &[String]) -> Result<String> {
    let Descriptor { name, version, .. } = descriptor;
    // What a component says of itself could end a comment.
    let version = literal(version);
    let mut out = format!(
        "# Made by `wasm-ccm annotations --output=cel` of {name}, version {version}. Make it anew when you upgrade the provider.\n"
    );
    if let Some(why) = &probed.unjudged {
        writeln!(
            out,
            "# Nothing is denied here, because the component was not asked what it refuses: {}",
            literal(why)
        )?;
    }
    let of = |verdict: fn(WrongValue) -> bool| {
        let asked = descriptor.annotations.iter().filter(|one| one.is_asked() && verdict(probed.wrong_value(one)));
        asked.filter_map(|one| validation(name, one, probed.wrong_value(one))).collect::<Vec<_>>()
    };
    let refused = of(|verdict| verdict == WrongValue::Refused);
    if !refused.is_empty() {
        policy(
            &mut out,
            descriptor,
            classes,
            &Policy { suffix: "", unknown: None, validations: refused, action: "Deny" },
        )?;
        out.push_str("---\n");
    }
    let mut warned = of(|verdict| verdict != WrongValue::Refused);
    let unknown = unknown(descriptor);
    warned.extend(unknown.is_some().then(|| of_unknown(name)));
    policy(
        &mut out,
        descriptor,
        classes,
        &Policy { suffix: "-warnings", unknown, validations: warned, action: "Warn" },
    )?;
    Ok(out)
}

/// What differs from policy to policy.
struct Policy {
    suffix: &'static str,
    /// An expression for `name`: whether nobody knows an annotation of that name.
    unknown: Option<String>,
    validations: Vec<Validation>,
    action: &'static str,
}

fn policy(out: &mut String, descriptor: &Descriptor, classes: &[String], policy: &Policy) -> Result<()> {
    let name = format!("wasm-ccm-annotations-{}{}", descriptor.name, policy.suffix);
    let class = match classes {
        [] => "!has(object.spec.loadBalancerClass)".to_owned(),
        classes => {
            let all: Vec<String> = classes.iter().map(|class| literal(class)).collect();
            format!("!has(object.spec.loadBalancerClass) || object.spec.loadBalancerClass in [{}]", all.join(", "))
        }
    };
    let orphan = format!(
        "object.metadata.?annotations.orValue({{}})[?{}].orValue(\"\") != {}",
        literal(ORPHAN),
        literal(&descriptor.name)
    );
    write!(
        out,
        "apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {name}
spec:
  # A mistake in this policy keeps nobody from changing a Service.
  failurePolicy: Ignore
  matchConstraints:
    resourceRules:
      - apiGroups: [\"\"]
        apiVersions: [v1]
        operations: [CREATE, UPDATE]
        resources: [services]
  matchConditions:
    - name: load-balancer
      expression: {}
    - name: class
      expression: {}
    - name: not-given-up
      expression: {}
  variables:
    - name: annotations
      expression: {}
    # What was there before was judged before.
    - name: before
      expression: {}
    - name: changed
      expression: {}
",
        literal("object.spec.type == \"LoadBalancer\" && !has(object.metadata.deletionTimestamp)"),
        literal(&class),
        literal(&orphan),
        literal("object.metadata.?annotations.orValue({})"),
        literal(
            "oldObject == null || oldObject.spec.type != \"LoadBalancer\" ? {} : oldObject.metadata.?annotations.orValue({})"
        ),
        literal(
            "variables.annotations.filter(name, !(name in variables.before) || variables.before[name] != variables.annotations[name])"
        ),
    )?;
    if let Some(unknown) = &policy.unknown {
        let expression = format!("variables.changed.filter(name, !(name in variables.before) && {unknown})");
        write!(out, "    - name: unknown\n      expression: {}\n", literal(&expression))?;
    }
    out.push_str("  validations:\n");
    for Validation { expression, message, told } in &policy.validations {
        let [expression, message, told] = [expression, message, told].map(|text| literal(text));
        write!(out, "    - expression: {expression}\n      messageExpression: {told}\n      message: {message}\n")?;
    }
    write!(
        out,
        "---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {name}
spec:
  policyName: {name}
  validationActions: [{}]
",
        policy.action
    )?;
    Ok(())
}

/// The check of a value, where there is one.
fn validation(provider: &str, annotation: &Annotation, wrong: WrongValue) -> Option<Validation> {
    let consequence = match wrong {
        WrongValue::Accepted => format!("; {provider} lets that pass, and does something else than it says"),
        WrongValue::Any | WrongValue::Refused | WrongValue::Unknown => String::new(),
    };
    let must = format!("must be {}", form(annotation));
    let told = |name: &str| {
        let end = format!("]: {must}, not ");
        format!(
            "\"metadata.annotations[\" + {name} + {} + variables.annotations[{name}] + {}",
            literal(&end),
            literal(&consequence)
        )
    };
    let message = format!("metadata.annotations[{}]: {must}{consequence}", annotation.name);
    if let Some(prefix) = annotation.name.strip_suffix('*') {
        let check = expression(annotation, "variables.annotations[name]")?;
        let prefix = literal(prefix);
        let wrong = format!("variables.changed.filter(name, name.startsWith({prefix}) && !({check}))");
        return Some(Validation {
            expression: format!("{wrong}.size() == 0"),
            message,
            told: told(&format!("{wrong}[0]")),
        });
    }
    let name = literal(&annotation.name);
    let check = expression(annotation, &format!("variables.annotations[{name}]"))?;
    Some(Validation { expression: format!("!({name} in variables.changed) || {check}"), message, told: told(&name) })
}

/// Whether `name` begins like the provider's own, and is none of them. None where the provider has no names of its own.
fn unknown(descriptor: &Descriptor) -> Option<String> {
    let begins = |prefix: &str| format!("name.startsWith({})", literal(prefix));
    let own: Vec<String> = annotation_prefixes(descriptor).iter().map(|prefix| begins(prefix)).collect();
    if own.is_empty() {
        return None;
    }
    let names = descriptor.annotations.iter().map(|annotation| annotation.name.as_str());
    let (prefixes, whole): (Vec<&str>, Vec<&str>) = names.partition(|name| name.ends_with('*'));
    let whole: Vec<String> = whole.into_iter().map(literal).collect();
    let prefixes = prefixes.into_iter().map(|name| format!(" && !{}", begins(name.trim_end_matches('*'))));
    Some(format!("({}) && !(name in [{}]){}", own.join(" || "), whole.join(", "), prefixes.collect::<String>()))
}

fn of_unknown(provider: &str) -> Validation {
    let (start, end) = (format!("provider {provider} does not know: "), "; that has no effect");
    Validation {
        expression: "variables.unknown.size() == 0".to_owned(),
        message: format!("provider {provider} does not know an annotation{end}"),
        told: format!("{} + variables.unknown.join(\", \") + {}", literal(&start), literal(end)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::tests::provider;
    use super::*;

    fn objects(text: &str) -> Vec<Value> {
        serde_saphyr::from_multiple(text).unwrap()
    }

    fn expressions(policy: &Value) -> Vec<&str> {
        let validations = policy["spec"]["validations"].as_array().unwrap();
        validations.iter().map(|one| one["expression"].as_str().unwrap()).collect()
    }

    #[test]
    fn what_is_refused_is_denied_and_everything_else_is_warned_of() {
        let (descriptor, probed) = provider();
        let objects = objects(&policies(&descriptor, &probed, &[]).unwrap());
        let names: Vec<&str> = objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
        let (denies, warns) = ("wasm-ccm-annotations-my", "wasm-ccm-annotations-my-warnings");
        assert_eq!(names, [denies, denies, warns, warns]);
        for (policy, binding) in [(&objects[0], &objects[1]), (&objects[2], &objects[3])] {
            assert_eq!(
                policy["spec"]["failurePolicy"], "Ignore",
                "a mistake of ours keeps nobody from changing a Service"
            );
            assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
        }
        assert_eq!(objects[1]["spec"]["validationActions"], serde_json::json!(["Deny"]));
        assert_eq!(objects[3]["spec"]["validationActions"], serde_json::json!(["Warn"]));
        assert_eq!(
            expressions(&objects[0]),
            [
                r#"!("my.example/mode" in variables.changed) || variables.annotations["my.example/mode"].trim() in ["", "fast", "\"slow\""]"#,
                r#"!("my.example/size" in variables.changed) || variables.annotations["my.example/size"].trim().matches("^([+-]?[0-9]+)?$")"#,
            ]
        );
        let warned = expressions(&objects[2]);
        assert_eq!(warned.len(), 3, "{warned:?}");
        assert!(warned[0].contains("my.example/public") && warned[1].contains(r#"startsWith("my.example/wait-")"#));
        assert_eq!(warned[2], "variables.unknown.size() == 0");
        let unknown = objects[2]["spec"]["variables"][3]["expression"].as_str().unwrap();
        assert!(unknown.contains(r#"name.startsWith("my.example/")"#), "{unknown}");
        assert!(
            unknown.contains(r#""my.example/job"]"#) && unknown.ends_with(r#"!name.startsWith("my.example/wait-"))"#)
        );
    }

    #[test]
    fn what_a_component_says_of_itself_stays_a_text() {
        let (mut descriptor, probed) = provider();
        let good = objects(&policies(&descriptor, &probed, &[]).unwrap());
        descriptor.version = "1\n---\nkind: Secret".to_owned();
        descriptor.annotations[0].allowed = vec!["\"] || true || \"\r\n---".to_owned()];
        let objects = objects(&policies(&descriptor, &probed, &[]).unwrap());
        assert_eq!(objects.len(), good.len());
        let check = expressions(&objects[0])[0];
        assert!(check.ends_with(r#".trim() in ["", "\"] || true || \"\r\n---"]"#), "{check}");
    }

    #[test]
    fn a_component_that_was_not_asked_denies_nothing_and_the_classes_are_the_operators() {
        let (descriptor, _) = provider();
        let probed = Probed::unjudged("no cloud-config\nand more".to_owned());
        let text = policies(&descriptor, &probed, &["my.example/lb".to_owned()]).unwrap();
        assert!(text.contains(r#"was not asked what it refuses: "no cloud-config\nand more""#), "{text}");
        let objects = objects(&text);
        assert_eq!(objects.len(), 2);
        assert_eq!(expressions(&objects[0]).len(), 5);
        let class = objects[0]["spec"]["matchConditions"][1]["expression"].as_str().unwrap();
        assert_eq!(
            class,
            r#"!has(object.spec.loadBalancerClass) || object.spec.loadBalancerClass in ["my.example/lb"]"#
        );
    }
}
