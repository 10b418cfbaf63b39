//! Fills out the form in the bytes of `guests/successor.wasm`. Part of the crates whose tests want such components.

/// Where the form begins.
const MARKER: &[u8] = b"@form:";
/// Bytes of the form, the marker included.
const LENGTH: usize = 256;

/// The component with these fields: `name`, `scheme`, `version`, `revision`, `behaviour`, `when`, `secret`, `endpoint`. What `tests/successor`
/// does with them stands there.
///
/// # Errors
///
/// There is no form or more than one, or it has no room.
pub(crate) fn fill(mut component: Vec<u8>, fields: &[(&str, &str)]) -> Result<Vec<u8>, String> {
    let mut places = component.windows(MARKER.len()).enumerate().filter(|(_, part)| *part == MARKER).map(|(at, _)| at);
    let (Some(at), None) = (places.next(), places.next()) else {
        return Err("a component with one form is wanted: guests/successor.wasm".to_owned());
    };
    let mut text = MARKER.to_vec();
    for (key, value) in fields {
        text.extend(format!("{key}={value};").bytes());
    }
    if text.len() > LENGTH {
        return Err(format!("the form has room for {LENGTH} bytes, not for {}", text.len()));
    }
    text.resize(LENGTH, b' ');
    match component.get_mut(at..).and_then(|rest| rest.get_mut(..LENGTH)) {
        Some(form) => form.copy_from_slice(&text),
        None => return Err("the form is cut off".to_owned()),
    }
    Ok(component)
}
