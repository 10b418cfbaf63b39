use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, Engine as _};

use super::forms::{MAX_FORMS, SENT};
use super::*;
use crate::encoding::Encoding;

const SPECIAL: &str = r#"k/+="<>&ü~* Z9"#;
const MARKUP: &str = "a&b<c>\"d\" 'ü'\t!";
const BASE64: &str = "??>>~~ü?xy";

fn redactor(values: &[(&str, &str)]) -> Redactor {
    Redactor::new(values.iter().map(|(name, value)| (*name, value.as_bytes()))).unwrap()
}

#[test]
fn a_value_is_found_in_every_form_that_programs_write() {
    // Written by Python, and by hand where that has no such form.
    let cases = [
        ("plain", SPECIAL, r#"k/+="<>&ü~* Z9"#),
        ("JSON", SPECIAL, r#"k/+=\"<>&ü~* Z9"#),
        ("JSON, Python", SPECIAL, r#"k/+=\"<>&\u00fc~* Z9"#),
        ("JSON, upper-case digits", SPECIAL, r#"k/+=\"<>&\u00FC~* Z9"#),
        ("JSON, slashes", SPECIAL, r#"k\/+=\"<>&ü~* Z9"#),
        ("JSON, PHP", SPECIAL, r#"k\/+=\"<>&\u00fc~* Z9"#),
        ("JSON, Go", SPECIAL, r#"k/+=\"\u003c\u003e\u0026ü~* Z9"#),
        ("JSON, Go, all ASCII", SPECIAL, r#"k\/+=\"\u003c\u003e\u0026\u00fc~* Z9"#),
        ("JSON, upper-case Go", SPECIAL, r#"k/+=\"\u003C\u003E\u0026ü~* Z9"#),
        ("JSON, Gson", SPECIAL, r#"k/+\u003d\"\u003c\u003e\u0026ü~* Z9"#),
        ("JSON, .NET", SPECIAL, r#"k/\u002B=\u0022\u003C\u003E\u0026\u00FC~* Z9"#),
        ("RFC 3986", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC~%2A%20Z9"#),
        ("RFC 3986, lower-case digits", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc~%2a%20Z9"#),
        ("RFC 3986, lower case", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc~%2a%20z9"#),
        ("Python quote", SPECIAL, r#"k/%2B%3D%22%3C%3E%26%C3%BC~%2A%20Z9"#),
        ("Java", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC%7E*+Z9"#),
        ("Java, lower-case digits", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc%7e*+Z9"#),
        ("Java, lower case", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc%7e*+z9"#),
        ("CloudStack", SPECIAL, r#"k%2f%2b%3d%22%3c%3e%26%c3%bc%7e*%20z9"#),
        ("form with ~ and *", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC~*+Z9"#),
        ("form without", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC%7E%2A+Z9"#),
        ("JavaScript", SPECIAL, r#"k%2F%2B%3D%22%3C%3E%26%C3%BC~*%20Z9"#),
        ("Go path", SPECIAL, r#"k%2F+=%22%3C%3E&%C3%BC~%2A%20Z9"#),
        ("browser query", SPECIAL, r#"k/+=%22%3C%3E&%C3%BC~*%20Z9"#),
        ("hex", SPECIAL, r#"6b2f2b3d223c3e26c3bc7e2a205a39"#),
        ("upper-case hex", SPECIAL, r#"6B2F2B3D223C3E26C3BC7E2A205A39"#),
        ("Base64", BASE64, r#"Pz8+Pn5+w7w/eHk="#),
        ("Base64, no padding", BASE64, r#"Pz8+Pn5+w7w/eHk"#),
        ("URL-safe Base64", BASE64, r#"Pz8-Pn5-w7w_eHk="#),
        ("URL-safe Base64, no padding", BASE64, r#"Pz8-Pn5-w7w_eHk"#),
        ("Base64 in a URL", BASE64, r#"Pz8%2BPn5%2Bw7w%2FeHk%3D"#),
        ("Base64 in a URL, lower-case digits", BASE64, r#"Pz8%2bPn5%2bw7w%2feHk%3d"#),
        ("URL-safe Base64 in a URL", BASE64, r#"Pz8-Pn5-w7w_eHk%3D"#),
        ("XML, text", MARKUP, "a&amp;b&lt;c&gt;\"d\" 'ü'\t!"),
        ("XML, text, Woodstox", MARKUP, "a&amp;b&lt;c>\"d\" 'ü'\t!"),
        ("XML", MARKUP, "a&amp;b&lt;c&gt;&quot;d&quot; &apos;ü&apos;\t!"),
        ("XML, attribute", MARKUP, "a&amp;b&lt;c&gt;&quot;d&quot; 'ü'\t!"),
        ("XML, attribute, no >", MARKUP, "a&amp;b&lt;c>&quot;d&quot; 'ü'\t!"),
        ("XML, Go", MARKUP, "a&amp;b&lt;c&gt;&#34;d&#34; &#39;ü&#39;&#x9;!"),
        ("HTML, Go", MARKUP, "a&amp;b&lt;c&gt;&#34;d&#34; &#39;ü&#39;\t!"),
        ("HTML, Python", MARKUP, "a&amp;b&lt;c&gt;&quot;d&quot; &#x27;ü&#x27;\t!"),
        ("HTML, PHP", MARKUP, "a&amp;b&lt;c&gt;&quot;d&quot; &#039;ü&#039;\t!"),
        ("HTML, .NET", MARKUP, "a&amp;b&lt;c&gt;&quot;d&quot; &#39;&#252;&#39;\t!"),
        ("XML, ASCII", MARKUP, "a&amp;b&lt;c&gt;\"d\" '&#252;'\t!"),
    ];
    for (form, value, text) in cases {
        let redactor = redactor(&[("key", value)]);
        assert_eq!(redactor.text(text), "(credential key)", "{form}");
        for (before, after) in [("\"", "\""), ("a=1&s=", "&b=2"), ("", "\n"), ("x: ", "")] {
            let text = format!("{before}{text}{after}");
            assert_eq!(redactor.text(&text), format!("{before}(credential key){after}"), "{form}");
            assert_eq!(redactor.bytes(text.into_bytes()), format!("{before}(credential key){after}").as_bytes());
        }
    }
}

#[test]
fn a_value_that_was_sent_in_one_form_is_found_when_that_is_sent_back_in_another() {
    let quoted = r#"k/+="<>&\"#;
    let cases = [
        ("JSON in JSON", quoted, r#"{"body": "{\"key\": \"k/+=\\\"<>&\\\\\"}"}"#),
        ("JSON in JSON, Go", quoted, r#"k/+=\\\"\u003c\u003e\u0026\\\\"#),
        ("JSON in a query, JavaScript", "it's \"x\"", "it's%20%5C%22x%5C%22"),
        ("JSON in hex", "\"secret\"", "5c227365637265745c22"),
        ("query in a query", "a b&c=d", "a%2520b%2526c%253Dd"),
        ("base64 in a query, encoded twice", "?>?>?>", "Pz4%252FPj8%252B"),
        ("base64 in base64", "SecretExample-1", "VTJWamNtVjBSWGhoYlhCc1pTMHg="),
        ("base64 in JSON, PHP", "?>?>?>?>", r"Pz4\/Pj8+Pz4="),
    ];
    for (form, value, text) in cases {
        let redacted = redactor(&[("key", value)]).text(text).into_owned();
        assert!(redacted.contains("(credential key)") && redacted.len() < text.len() + 16, "{form}: {redacted}");
    }
}

#[test]
fn in_the_middle_of_base64_only_what_the_neighbours_share_is_left() {
    let cases = [
        ("Pz8+Pn5+w7w/eHk=", "{}"),
        ("Pz8-Pn5-w7w_eHk=", "{}"),
        ("Pz8+Pn5+w7w/eHl6", "{}l6"),
        ("Pz8-Pn5-w7w_eHl6", "{}l6"),
        ("Pz8+Pn5+w7w/eHl6eg==", "{}l6eg=="),
        ("Pz8-Pn5-w7w_eHl6eg==", "{}l6eg=="),
        ("eD8/Pj5+fsO8P3h5", "eD{}"),
        ("eD8_Pj5-fsO8P3h5", "eD{}"),
        ("eD8/Pj5+fsO8P3h5eg==", "eD{}eg=="),
        ("eD8_Pj5-fsO8P3h5eg==", "eD{}eg=="),
        ("eD8/Pj5+fsO8P3h5eno=", "eD{}eno="),
        ("eD8_Pj5-fsO8P3h5eno=", "eD{}eno="),
        ("eHk/Pz4+fn7DvD94eQ==", "eHk{}"),
        ("eHk_Pz4-fn7DvD94eQ==", "eHk{}"),
        ("eHk/Pz4+fn7DvD94eXo=", "eHk{}Xo="),
        ("eHk_Pz4-fn7DvD94eXo=", "eHk{}Xo="),
        ("eHk/Pz4+fn7DvD94eXp6", "eHk{}Xp6"),
        ("eHk_Pz4-fn7DvD94eXp6", "eHk{}Xp6"),
    ];
    let redactor = redactor(&[("key", BASE64)]);
    for (text, left) in cases {
        assert_eq!(redactor.text(text), left.replace("{}", "(credential key)"), "{text}");
    }
}

#[test]
fn any_bytes_are_found_anywhere_in_base64_and_hex() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 32).unwrap() % below
    };
    for round in 0..350 {
        let mut bytes = |length: usize| (0..length).map(|_| u8::try_from(random(256)).unwrap()).collect::<Vec<u8>>();
        let mut value = bytes(6 + round % 60);
        // White space at its ends would be trimmed.
        value[0] |= 0x80;
        *value.last_mut().unwrap() |= 0x80;
        let (before, after) = (bytes(round % 50), bytes(round / 7 % 50));
        let whole = [before.as_slice(), &value, &after].concat();
        let redactor = Redactor::new([("key", value.as_slice())]).unwrap();
        let shared = |text: String| {
            let redacted = redactor.text(&text).into_owned();
            let (start, end) = redacted.split_once("(credential key)").expect(&text);
            assert!(text.starts_with(start) && text.ends_with(end), "{redacted}");
            (start.len(), text.len() - end.len())
        };
        let (start, end) = (before.len(), before.len() + value.len());
        assert_eq!(shared(Encoding::Hex.encode(&whole).unwrap().escape_ascii().to_string()), (start * 2, end * 2));
        for text in
            [BASE64_STANDARD_NO_PAD.encode(&whole), BASE64_STANDARD.encode(&whole), BASE64_URL_SAFE.encode(&whole)]
        {
            let (first, last) = ((start * 8).div_ceil(6), end * 8 / 6);
            let (from, to) = shared(text.clone());
            // One more where the neighbour's bits happen to be zero, and the padding at the end.
            let most = if after.is_empty() { text.len() } else { last + usize::from(end * 8 % 6 != 0) };
            assert!(from == first && (last..=most).contains(&to), "{from} to {to} of {text}");
            assert!(!after.is_empty() || to == text.len(), "{text}");
        }
        assert_eq!(redactor.bytes(whole), [before.as_slice(), b"(credential key)", &after].concat());
    }
}

#[test]
fn the_longest_of_several_values_counts_and_the_first_name_of_equal_ones() {
    let redactor = redactor(&[
        ("short", "token-12"),
        ("long", "token-12345678"),
        ("user", "administrator"),
        ("again", "administrator"),
    ]);
    let cases = [
        ("token-12345678", "(credential long)"),
        ("token-1234567", "(credential short)34567"),
        ("token-12 token-12345678", "(credential short) (credential long)"),
        ("token-12token-12", "(credential short)(credential short)"),
        ("user=administrator&key=token-12", "user=(credential user)&key=(credential short)"),
        ("Basic YWRtaW5pc3RyYXRvcjp0b2tlbi0xMjM0NTY3OA==", "Basic (credential user)jp(credential long)"),
    ];
    for (text, redacted) in cases {
        assert_eq!(redactor.text(text), redacted);
    }
}

#[test]
fn a_value_is_not_hidden_by_another_that_overlaps_it() {
    let redactor = redactor(&[
        ("session", "zzzzzzzzh"),
        ("password", "hunter2-hunter2"),
        ("outer", "<<hunter2-hunter2>>"),
        ("tail", "unter2-hunter2"),
    ]);
    let cases = [
        ("zzzzzzzzhunter2-hunter2", "(credential session)(credential password)"),
        ("a zzzzzzzzhunter2-hunter2 b", "a (credential session)(credential password) b"),
        ("zzzzzzzzhunter2-hunter2-hunter2", "(credential session)(credential password)"),
        ("hunter2-hunter2hunter2-hunter2", "(credential password)(credential password)"),
        ("<<hunter2-hunter2>>", "(credential outer)"),
        ("<<hunter2-hunter2>", "<<(credential password)>"),
        ("zzzzzzzzh<<hunter2-hunter2>>", "(credential session)(credential outer)"),
        ("hunter2-huntzzzzzzzzhunter2-hunter2", "hunter2-hunt(credential session)(credential password)"),
    ];
    for (text, redacted) in cases {
        assert_eq!(redactor.text(text), redacted);
    }
}

#[test]
fn several_redactors_look_at_the_same_time() {
    let (given, captured) = (redactor(&[("password", "hunter2-hunter2")]), redactor(&[("session", "zzzzzzzzh")]));
    for both in [given.and(&captured), captured.and(&given).and(&given)] {
        assert_eq!(both.text("zzzzzzzzhunter2-hunter2"), "(credential session)(credential password)");
    }
    assert!(!given.and(&Redactor::default()).is_empty());
}

/// Captured values that a component chose showed byte by byte how the operator's secret begins: where the guess was right, more was masked.
#[test]
fn a_captured_value_tells_nothing_of_the_secret_beside_it() {
    let given = redactor(&[("password", "hunter2-hunter2")]);
    for guess in ["zzzzzzzzh", "zzzzzzzzx", "zzzzzzzzhu", "2zzzzzzzz", "xzzzzzzzz"] {
        let both = given.then(&redactor(&[("session", guess)]));
        let shown = both.text("zzzzzzzzhunter2-hunter2zzzzzzzz");
        assert_eq!(shown, "zzzzzzzz(credential password)zzzzzzzz", "{guess}");
    }
    let both = given.then(&redactor(&[("session", "token-12345")]));
    let text = "token-12345,hunter2-hunter2token-12345hunter2-hunter2, token-12345";
    let shown =
        "(credential session),(credential password)(credential session)(credential password), (credential session)";
    assert_eq!(both.text(text), shown);
    assert!(both.finds_other_than("password", b"token-12345") && !both.is_empty());
    assert!(!Redactor::default().then(&given).is_empty());
}

#[test]
fn what_another_name_owns_is_found_even_within_ones_own() {
    let redactor =
        redactor(&[("token", "xx-hunter2-hunter2"), ("password", "hunter2-hunter2"), ("same", "token-12345")]);
    let cases = [
        ("token", "xx-hunter2-hunter2", true),
        ("password", "hunter2-hunter2", false),
        ("token", "Basic aHVudGVyMi1odW50ZXIy", true),
        ("token", "token-12345", true),
        ("same", "token-12345", false),
        ("token", "token-99999", false),
    ];
    for (name, value, found) in cases {
        assert_eq!(redactor.finds_other_than(name, value.as_bytes()), found, "{name}: {value}");
    }
}

/// Compared with all matches of all values, looked for one by one.
#[test]
fn every_byte_of_every_value_is_taken_out_whatever_overlaps() {
    let values = ["aabaabaa", "abaaabab", "bbbbbbbb", "aaaaaaaaaaaa", "baabaabb", "aabb"];
    let names = ["u", "v", "w", "x", "y", "z"];
    let redactor = redactor(&names.into_iter().zip(values).collect::<Vec<_>>());
    let mut state = 1_u64;
    for _ in 0..500 {
        let text: String = (0..60)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if state >> 62 == 0 { 'b' } else { 'a' }
            })
            .collect();
        let mut kept = vec![true; text.len()];
        for value in values {
            for start in 0..=text.len() - value.len() {
                if text[start..].starts_with(value) {
                    kept[start..start + value.len()].fill(false);
                }
            }
        }
        let left: String = text.chars().zip(kept).filter(|(_, kept)| *kept).map(|(c, _)| c).collect();
        let mut redacted = redactor.text(&text).into_owned();
        for name in names {
            redacted = redacted.replace(&placeholder(name), "");
        }
        assert_eq!(redacted, left, "{text}");
    }
}

/// Nearly all bytes are skipped, by what follows them. A value may be one byte long, end where the text does, or begin within what looked like
/// another. Compared as above.
#[test]
fn no_value_is_skipped_however_short_it_is_and_wherever_it_stands() {
    let names = ["u", "v", "w"];
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % below).unwrap()
    };
    let mut word =
        |least: usize, more: u64| -> String { (0..least + random(more)).map(|_| ["a", "b", "c"][random(3)]).collect() };
    for _ in 0..300 {
        let values = names.map(|_| word(1, 4));
        let redactor = redactor(&names.into_iter().zip(values.iter().map(String::as_str)).collect::<Vec<_>>());
        for _ in 0..20 {
            let text = word(0, 13);
            let mut kept = vec![true; text.len()];
            for value in &values {
                for start in (0..text.len()).filter(|start| text[*start..].starts_with(value)) {
                    kept[start..start + value.len()].fill(false);
                }
            }
            let is_there = kept.contains(&false);
            assert_eq!(redactor.finds_other_than("", text.as_bytes()), is_there, "{values:?} in {text}");
            let left: String = text.chars().zip(kept).filter(|(_, kept)| *kept).map(|(c, _)| c).collect();
            let redacted = redactor.text(&text).into_owned();
            let redacted = names.into_iter().fold(redacted, |text, name| text.replace(&placeholder(name), ""));
            assert_eq!(redacted, left, "{values:?} in {text}");
        }
    }
}

/// Text is passed in steps almost as long as the shortest value, and what lies between is not looked at: a value may begin at each byte of a
/// step, and end with the text.
#[test]
fn no_value_is_stepped_over_wherever_it_begins_and_however_long_it_is() {
    let mut state = 11_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % below).unwrap()
    };
    for round in 0..200 {
        let mut values = [("u", String::new()), ("v", String::new())];
        for (_, value) in &mut values {
            *value = (0..5 + round % 9).map(|_| ["k", "q", "Z", "9", "_"][random(5)]).collect();
        }
        let redactor = redactor(&values.each_ref().map(|(name, value)| (*name, value.as_str())));
        for before in 0..30 {
            // What is between has bytes of no value, of one, and the first bytes of one.
            let mut text: String = (0..before).map(|_| [".", ",", "k", "Z"][random(4)]).collect();
            let (name, value) = &values[random(2)];
            text.push_str(&value[..random(3)]);
            let (start, end) = (text.len(), [".", "", "kq", "."][random(4)]);
            text = format!("{text}{value}{end}");
            let shown = redactor.text(&text).into_owned();
            assert!(shown.contains(&placeholder(name)), "{value} at {start} of {text}: {shown}");
            assert!(values.iter().all(|(_, value)| !shown.contains(value)), "{text}: {shown}");
        }
    }
}

#[test]
fn a_text_that_matches_at_each_byte_neither_takes_long_nor_grows() {
    let values: Vec<String> = (8..60).map(|length| "a".repeat(length)).collect();
    let redactor = redactor(&values.iter().map(|value| ("key", value.as_str())).collect::<Vec<_>>());
    let text = "a".repeat(1 << 20);
    let begin = tokio::time::Instant::now();
    assert_eq!(redactor.text(&text), "(credential key)");
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

/// Each place of a short password got its name: one answer took a hundred megabytes that nobody had counted, and there may be many at once.
#[test]
fn of_a_text_full_of_values_nothing_is_left_rather_than_many_times_as_much() {
    let long = "n".repeat(1_000);
    let (given, captured) = (redactor(&[(long.as_str(), "hunter22")]), redactor(&[("session", "token-12")]));
    let both = given.then(&captured);
    let full = |value: &str, times: usize| format!("{value},").repeat(times);
    let name = format!("(credential {}…),", "n".repeat(MAX_NAME));
    assert_eq!(both.text(&full("hunter22", MOST_PIECES)), name.repeat(MOST_PIECES));
    for text in [
        full("hunter22", MOST_PIECES + 1),
        // What is looked for in the gaps counts, too, also where each gap has little of it.
        full("token-12", MOST_PIECES + 1),
        full("hunter22,token-12", MOST_PIECES / 2 + 1),
    ] {
        let shown = both.text(&text);
        assert!(shown.contains(EVERYTHING) && shown.len() < EVERYTHING.len() + 2, "{} bytes", shown.len());
    }
}

#[test]
fn what_holds_no_value_is_not_even_copied() {
    let redactor = redactor(&[("key", "SecretExample-9876543210_XyZ"), ("other", SPECIAL)]);
    let long = r#"{"listzonesresponse":{"count":1,"zone":[{"id":"0c1d2e3f","name":"Zürich & co"}]}}"#.repeat(100);
    for text in ["", "k", "SecretExample-9876543210_Xy", "secret example", "(credential key)", &long] {
        assert!(matches!(redactor.text(text), Cow::Borrowed(same) if same == text), "{text}");
        let bytes = text.as_bytes().to_vec();
        let address = bytes.as_ptr();
        let after = redactor.bytes(bytes);
        assert_eq!((after.as_slice(), after.as_ptr()), (text.as_bytes(), address));
    }
}

#[test]
fn white_space_around_a_value_does_not_count_and_its_length_does_not_matter() {
    let cases = [
        (" \n", true, "", ""),
        ("abc", false, "an abc book", "an (credential key) book"),
        (" 12345 \n", false, "12345", "(credential key)"),
        ("123456", false, "x123456x", "x(credential key)x"),
        ("s3cr3t-v\n", false, "Bearer s3cr3t-v", "Bearer (credential key)"),
        // The line break was encoded with it.
        ("s3cr3t-v\n", false, "czNjcjN0LXYK", "(credential key)"),
        ("s3cr3t-v\n", false, "czNjcjN0LXYg", "(credential key)g"),
    ];
    for (value, empty, text, redacted) in cases {
        let redactor = redactor(&[("key", value)]);
        assert_eq!((redactor.is_empty(), redactor.text(text).as_ref()), (empty, redacted), "{value:?}");
    }
    assert!(redactor(&[]).is_empty());
}

#[test]
fn a_value_that_is_no_text_leaves_text_behind() {
    // The second byte of "é" and what follows.
    let redactor = Redactor::new([("key", b"\xa9secret".as_slice())]).unwrap();
    assert_eq!(redactor.text("caf\u{e9}secret!"), "caf\u{fffd}(credential key)!");
}

#[test]
fn the_forms_of_a_large_value_stay_within_bounds_but_all_that_a_request_can_carry_are_looked_for() {
    let large = SPECIAL.repeat(2000);
    let most = MAX_FORMS + 24 * large.len();
    let forms = forms(large.as_bytes());
    assert!(forms.iter().map(|form| form.len()).sum::<usize>() <= most, "{} forms", forms.len());
    let huge = SPECIAL.repeat(60 * 1024 / SPECIAL.len());
    for value in [huge.clone(), format!(" {huge}\n")] {
        let redactor = redactor(&[("key", &value)]);
        for encoding in SENT.into_iter().chain([Encoding::Hex]) {
            let text = String::from_utf8(encoding.encode(value.as_bytes()).unwrap().to_vec()).unwrap();
            assert_eq!(redactor.text(&text), "(credential key)", "{encoding:?}");
        }
        assert_eq!(redactor.text(value.trim()), "(credential key)");
    }
}

#[test]
fn one_redactor_is_built_per_change_whoever_asks() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let (kept, built, version) = (RedactorCache::default(), AtomicU64::new(0), AtomicU64::new(1));
    let ask = || {
        let values = || {
            built.fetch_add(1, Ordering::SeqCst);
            vec![("key".to_owned(), Secret::new(SPECIAL.repeat(100).into_bytes()), Origin::Given)]
        };
        assert!(!kept.get(|| version.load(Ordering::SeqCst), values).unwrap().is_empty());
    };
    for changes in 1..4 {
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(ask);
            }
        });
        assert_eq!(built.load(Ordering::SeqCst), changes);
        version.fetch_add(1, Ordering::SeqCst);
    }
}
