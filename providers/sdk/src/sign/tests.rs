mod vectors;

use super::*;
use crate::Cloud;
use crate::credentials::{Secret, Signature};
use crate::testing::{FakeCloud, Reply, text};

fn signed(part: &Part) -> &Signature {
    match part {
        Part::Signature(signature) => signature,
        _ => panic!("not signed"),
    }
}

/// What is signed, as the host puts it together for a credential with this value.
fn data(signature: &Signature, value: &str) -> String {
    let parts = signature.data.iter().map(|part| match part {
        SignedPart::Bytes(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        SignedPart::Secret(Secret { encoding: Encoding::UrlLowerCase, .. }) => {
            percent::encode(value, JAVA_UNRESERVED).to_ascii_lowercase()
        }
        SignedPart::Secret(other) => panic!("{other:?}"),
        SignedPart::Target => "<target>".to_owned(),
    });
    parts.collect()
}

#[test]
fn a_stamp_is_the_same_for_a_whole_step_and_another_one_after_it() {
    let of = |seconds, step| Stamp::at(Duration::from_secs(seconds), Duration::from_secs(step)).0;
    assert_eq!([of(59, 30), of(60, 30), of(89, 30), of(90, 30)], [30, 60, 60, 90]);
    assert_eq!(of(59, 0), 59, "no step at all is one of a second");
    let _fake = FakeCloud::new().at(100);
    assert_eq!(Stamp::now(Duration::from_secs(30)).after(Duration::from_secs(600)), Stamp(690));
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (seconds, http, rfc3339) in [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00Z"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00Z"),
        (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT", "2000-02-29T23:59:59Z"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT", "2000-03-01T00:00:00Z"),
        (1_777_982_400, "Tue, 05 May 2026 12:00:00 GMT", "2026-05-05T12:00:00Z"),
        (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT", "2026-12-31T23:59:59Z"),
        (1_928_030_706, "Wed, 05 Feb 2031 04:05:06 GMT", "2031-02-05T04:05:06Z"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!((Stamp(seconds).http_date().as_str(), Stamp(seconds).rfc3339().as_str()), (http, rfc3339));
    }
}

/// CloudStack's rules, in one request: names in byte order, spaces, `~` and `*`, letters outside ASCII, brackets in names.
#[test]
fn a_query_is_signed_sorted_encoded_as_java_does_and_in_lower_case() {
    let request = Request::get("api", "/")
        .query("command", "createLBStickinessPolicy")
        .query("name", "sticky *ü+/=&~ v1")
        .query("param[2].name", "nocache")
        .query("param[10].name", "mode")
        .query("expires", "2031-02-03T04:05:06Z")
        .query("applied", true)
        .query_secret("apiKey", "api-key", Encoding::Plain)
        .sign_query("secret-key");
    let (name, parts) = request.query_so_far().last().unwrap();
    let signature = signed(&parts[0]);
    assert_eq!((name.as_str(), signature.key.as_str()), ("signature", "secret-key"));
    assert_eq!((signature.algorithm, signature.encoding), (Algorithm::HmacSha1, Encoding::Base64));
    assert_eq!(
        data(signature, "AKID/Example"),
        "apikey=akid%2fexample&applied=true&command=createlbstickinesspolicy&expires=2031-02-03t04%3a05%3a06z\
         &name=sticky%20*%c3%bc%2b%2f%3d%26%7e%20v1&param[10].name=mode&param[2].name=nocache"
    );
}

#[test]
fn a_form_is_signed_as_a_query_and_its_signature_fits_into_a_form() {
    let fake = FakeCloud::new().on("api POST /", Reply::json(200, "{}"));
    let fields = vec![
        ("apiKey".to_owned(), vec![Part::secret("api-key", Encoding::Url)]),
        ("cidrlist".to_owned(), vec![Part::bytes("10.0.0.0/8,192.168.1.0/24")]),
        ("algorithm".to_owned(), vec![Part::bytes("roundrobin")]),
    ];
    Cloud::new("api").post("/").signed_form(fields, "secret-key").send().unwrap().done().unwrap();
    let body = fake.requests().remove(0).body;
    assert_eq!(
        text(&body),
        "apiKey=<api-key>&cidrlist=10.0.0.0%2F8%2C192.168.1.0%2F24&algorithm=roundrobin&signature=<signature>"
    );
    let signature = signed(body.last().unwrap());
    assert_eq!(signature.encoding, Encoding::Base64PercentEncoded);
    assert_eq!(data(signature, "AKID"), "algorithm=roundrobin&apikey=akid&cidrlist=10.0.0.0%2f8%2c192.168.1.0%2f24");
}

#[test]
fn headers_are_signed_with_method_target_and_date() {
    let by = HttpSignature { key: "account-key", key_id: "/me/keys/aa:bb", algorithm: Algorithm::Ed25519 };
    let fake = FakeCloud::new().on("api DELETE /me/machines/7", Reply::status(204));
    let machine = Cloud::new("api").delete("/me/machines/{id}").arg("id", 7);
    machine.sign_headers(&by, Stamp(1_777_982_400)).send().unwrap().done().unwrap();
    let headers = fake.requests().remove(0).headers;
    let header = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, parts)| parts).unwrap();
    assert_eq!(text(header("date")), "Tue, 05 May 2026 12:00:00 GMT");
    assert_eq!(
        text(header("authorization")),
        "Signature keyId=\"/me/keys/aa:bb\",algorithm=\"ed25519-sha512\",headers=\"(request-target) date\",\
         signature=\"<signature>\""
    );
    let signature = signed(&header("authorization")[1]);
    assert_eq!((signature.algorithm, signature.encoding), (Algorithm::Ed25519, Encoding::Base64));
    assert_eq!(data(signature, ""), "(request-target): delete <target>\ndate: Tue, 05 May 2026 12:00:00 GMT");
}

/// The host compares requests byte by byte before it shares an answer.
#[test]
fn requests_of_one_step_are_the_same_request_and_those_of_the_next_are_not() {
    const CLOUD: Cloud = Cloud::new("api").prepare(|request| {
        let expires = Stamp::now(Duration::from_secs(30)).after(Duration::from_secs(600));
        request.query("expires", expires.rfc3339()).sign_query("secret-key")
    });
    let sent = |seconds| {
        let fake = FakeCloud::new().at(seconds).always("api GET /", Reply::json(200, "{}"));
        CLOUD.get("/").query("command", "listZones").share(Duration::from_secs(5)).send().unwrap().done().unwrap();
        fake.requests().remove(0)
    };
    assert_eq!(format!("{:?}", sent(60)), format!("{:?}", sent(89)));
    assert_ne!(format!("{:?}", sent(60)), format!("{:?}", sent(90)));
}
