use crate::cloud::Cloud;
use crate::testing::{FakeCloud, Reply};
use crate::types::Failure;

crate::records! {
    #[derive(Debug, Clone, PartialEq)]
    struct Machine {
        id: u64 [id],
        name: String,
        kind: String = "type",
        running: bool,
        port: Option<u16>,
        places: Vec<Place>,
        tags: Option<Vec<String>>,
        small: i32,
    }

    #[derive(Debug, Clone, PartialEq)]
    struct Place {
        zone: String = "zone-name" [required],
        racks: Vec<i64>,
    }
}

fn read(body: &str) -> Result<Machine, String> {
    serde_json::from_str(body).map_err(|error| error.to_string())
}

fn answered(body: &str) -> crate::Answer {
    let _fake = FakeCloud::new().on("api GET /x", Reply::json(200, body));
    Cloud::new("api").get("/x").send().expect("it is scripted")
}

#[test]
fn what_is_there_is_read_and_what_is_not_has_its_default() {
    let machine = Machine { id: 7, ..Machine::default() };
    for body in [
        r#"{"id": 7}"#,
        r#"{"id": 7, "name": null, "type": null, "running": null, "port": null, "places": null, "tags": null}"#,
        r#"{"colour": {"id": [8]}, "id": 7, "kind": "a field's own name is none in JSON"}"#,
    ] {
        assert_eq!(read(body).as_ref(), Ok(&machine), "{body}");
    }
    let body = r#"{"id": 7, "name": "a\"b", "type": "t", "running": true, "port": 80, "small": -5, "tags": ["x", "y"],
        "places": [{"zone-name": "z", "racks": [1, -2]}, {"zone-name": ""}]}"#;
    let place = |zone: &str, racks: &[i64]| Place { zone: zone.to_owned(), racks: racks.to_vec() };
    let expected = Machine {
        id: 7,
        name: "a\"b".to_owned(),
        kind: "t".to_owned(),
        running: true,
        port: Some(80),
        places: vec![place("z", &[1, -2]), place("", &[])],
        tags: Some(vec!["x".to_owned(), "y".to_owned()]),
        small: -5,
    };
    assert_eq!(read(body), Ok(expected));
}

#[test]
fn numbers_and_flags_may_be_texts_and_texts_numbers() {
    let machine = read(r#"{"id": "7", "name": 18446744073709551615, "type": false, "running": "true", "port": "80"}"#);
    let name = u64::MAX.to_string();
    let expected =
        Machine { id: 7, name, kind: "false".to_owned(), running: true, port: Some(80), ..Machine::default() };
    assert_eq!(machine, Ok(expected));
}

#[test]
fn what_does_not_fit_is_told_without_its_value() {
    for (body, expected) in [
        (r#"{"id": -7}"#, "another type, expected a number at line 1 column 9"),
        (r#"{"id": "secret"}"#, "another type, expected a number at line 1 column 15"),
        (r#"{"id": 1.5}"#, "another type, expected a number at line 1 column 10"),
        (r#"{"id": 7, "port": 65536}"#, "another type, expected a number at line 1 column 23"),
        (r#"{"id": 7, "running": "yes"}"#, "another type, expected a flag at line 1 column 26"),
        (r#"{"id": 7, "name": ["secret"]}"#, "another type, expected a text at line 1 column 19"),
        (r#"{"id": 7, "places": {}}"#, "another type, expected a list at line 1 column 22"),
        (r#"{"id": 7, "places": [null]}"#, "another type, expected an object at line 1 column 26"),
        (r#"{"id": 7, "places": [[]]}"#, "another type, expected an object at line 1 column 23"),
        ("null", "another type, expected an object"),
        ("[]", "another type, expected an object"),
    ] {
        let error = read(body).expect_err(body);
        assert!(error.starts_with(expected), "{body}: {error}");
    }
}

#[test]
fn an_object_without_what_it_must_have_is_none() {
    for (body, name) in [("{}", "id"), (r#"{"id": null}"#, "id"), (r#"{"id": 7, "places": [{}]}"#, "zone-name")] {
        let error = read(body).expect_err(body);
        assert!(error.starts_with(&format!("missing field `{name}`")), "{body}: {error}");
    }
}

#[test]
fn the_objects_around_an_answer_need_no_types() {
    let body = r#"{"a": {"c": 1, "b": {"id": 7}, "d": {}}, "b": {"id": 8}, "e": null, "meta": {"x": {"total": 3}}}"#;
    let id = |place| answered(body).json_at::<Machine>(place).map(|machine| machine.id);
    assert_eq!((id("/a/b"), id("/b")), (Ok(7), Ok(8)));
    assert_eq!(answered(body).json_at::<usize>("/meta/x/total"), Ok(3));
    for place in ["/c", "/e", "/a/e/f", "/e/f", "/meta/total"] {
        assert_eq!(id(place), Err(Failure::retry(format!("GET /x: 200: the answer has no {place}"))), "{place}");
    }
    assert!(id("/a").is_err_and(|failure| failure.message.ends_with("missing field `id`")));
    assert_eq!(answered("[7, 8]").json_at::<Vec<u8>>(""), Ok(vec![7, 8]), "the whole");
    for cut in [r#"{"b": {"id": 8}"#, r#"{"b": {"id": 8}} {}"#, "<html>", ""] {
        assert!(answered(cut).json_at::<Machine>("/b").is_err(), "{cut}");
    }
}
