//! What the value of an annotation looks like. Everything here takes more than a component may: what begins or ends with blanks is read without
//! them, and an empty value is as none, because most providers read values like that.

use ccm_cloud::{Annotation, ValueKind};

/// A value that is none of any kind but text.
pub(crate) const WRONG: &str = "?wrong?";

/// What its value looks like, for people.
pub(crate) fn form(annotation: &Annotation) -> String {
    if !annotation.allowed.is_empty() {
        return format!("one of {}", annotation.allowed.join(", "));
    }
    match annotation.kind {
        ValueKind::Text => "any text",
        ValueKind::Boolean => "`true` or `false`",
        ValueKind::Integer => "a whole number",
        ValueKind::Duration => "a duration, such as `90s` or `1m30s`",
        ValueKind::PortList => "ports, separated by commas",
        ValueKind::CidrList => "networks in CIDR notation, separated by commas",
        ValueKind::Json => "a JSON document",
    }
    .to_owned()
}

/// A CEL expression that is true where the value that `value` stands for looks like that; none where an expression cannot tell.
pub(crate) fn expression(annotation: &Annotation, value: &str) -> Option<String> {
    if !annotation.allowed.is_empty() {
        let words = annotation.allowed.iter().map(String::as_str);
        let all: Vec<String> = [""].into_iter().chain(words).map(literal).collect();
        return Some(format!("{value}.trim() in [{}]", all.join(", ")));
    }
    let form = match annotation.kind {
        // There is no parser of JSON in CEL.
        ValueKind::Text | ValueKind::Json => return None,
        // What Go's strconv.ParseBool takes.
        ValueKind::Boolean => "^(0|f|F|false|FALSE|False|1|t|T|true|TRUE|True)?$",
        ValueKind::Integer => "^([+-]?[0-9]+)?$",
        ValueKind::Duration => "^(0|[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)?$",
        ValueKind::PortList => "^( *[+-]?[0-9]* *(,|$))*$",
        ValueKind::CidrList => {
            return Some(format!("{value}.split(\",\").all(one, one.trim() == \"\" || isCIDR(one.trim()))"));
        }
    };
    Some(format!("{value}.trim().matches({})", literal(form)))
}

/// A text in CEL. Its escapes are those of JSON.
pub(crate) fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
