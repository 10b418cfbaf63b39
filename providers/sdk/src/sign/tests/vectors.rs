//! What other programs sign. That the host makes their signatures of these strings is tested there.

use super::*;

const API_KEY: &str = "AKIDEXAMPLE-0123456789_abcDEF";
const AT: (&str, &str) = ("expires", "2031-02-03T04:05:06Z");
const JSON: (&str, &str) = ("response", "json");
const VERSION: (&str, &str) = ("signatureversion", "3");

/// Parameters as a caller gives them, and the string to sign. The API key is among them.
const CLOUDSTACK: [(&[(&str, &str)], &str); 6] = [
    (
        &[
            ("command", "listVirtualMachines"),
            ("name", "Worker 01"),
            ("listall", "true"),
            ("projectid", "11111111-2222-3333-4444-555555555555"),
            AT,
            JSON,
            VERSION,
        ],
        "apikey=akidexample-0123456789_abcdef&command=listvirtualmachines&expires=2031-02-03t04%3a05%3a06z&listall=true\
         &name=worker%2001&projectid=11111111-2222-3333-4444-555555555555&response=json&signatureversion=3",
    ),
    (
        &[
            ("command", "createLoadBalancerRule"),
            ("algorithm", "roundrobin"),
            ("name", "a1b2c3d4e5f60718293a4b5c6d7e8f90-tcp-443"),
            ("privateport", "30443"),
            ("publicport", "443"),
            ("protocol", "tcp"),
            ("publicipid", "0c1d2e3f-0000-4000-8000-00000000ab01"),
            ("networkid", "0c1d2e3f-0000-4000-8000-00000000ab02"),
            ("openfirewall", "false"),
            ("cidrlist", "10.0.0.0/8,192.168.1.0/24"),
            AT,
            JSON,
            VERSION,
        ],
        "algorithm=roundrobin&apikey=akidexample-0123456789_abcdef&cidrlist=10.0.0.0%2f8%2c192.168.1.0%2f24\
         &command=createloadbalancerrule&expires=2031-02-03t04%3a05%3a06z&name=a1b2c3d4e5f60718293a4b5c6d7e8f90-tcp-443\
         &networkid=0c1d2e3f-0000-4000-8000-00000000ab02&openfirewall=false&privateport=30443&protocol=tcp\
         &publicipid=0c1d2e3f-0000-4000-8000-00000000ab01&publicport=443&response=json&signatureversion=3",
    ),
    (
        &[
            ("command", "createLBStickinessPolicy"),
            ("lbruleid", "0c1d2e3f-0000-4000-8000-00000000ab03"),
            ("methodname", "LbCookie"),
            ("name", "sticky *ü+/=&~ v1"),
            ("param[0].name", "cookie-name"),
            ("param[0].value", "SRV"),
            ("param[10].name", "mode"),
            ("param[10].value", "insert"),
            ("param[2].name", "nocache"),
            ("param[2].value", "true"),
            AT,
            JSON,
            VERSION,
        ],
        "apikey=akidexample-0123456789_abcdef&command=createlbstickinesspolicy&expires=2031-02-03t04%3a05%3a06z\
         &lbruleid=0c1d2e3f-0000-4000-8000-00000000ab03&methodname=lbcookie&name=sticky%20*%c3%bc%2b%2f%3d%26%7e%20v1\
         &param[0].name=cookie-name&param[0].value=srv&param[10].name=mode&param[10].value=insert&param[2].name=nocache\
         &param[2].value=true&response=json&signatureversion=3",
    ),
    (
        &[("command", "listCapabilities"), ("expires", "2031-02-03T04:05:06+0000"), JSON, VERSION],
        "apikey=akidexample-0123456789_abcdef&command=listcapabilities&expires=2031-02-03t04%3a05%3a06%2b0000\
         &response=json&signatureversion=3",
    ),
    (
        &[("command", "queryAsyncJobResult"), ("jobid", "0c1d2e3f-0000-4000-8000-00000000ab04"), JSON],
        "apikey=akidexample-0123456789_abcdef&command=queryasyncjobresult&jobid=0c1d2e3f-0000-4000-8000-00000000ab04\
         &response=json",
    ),
    (
        &[
            ("command", "queryAsyncJobResult"),
            ("jobid", "0c1d2e3f-0000-4000-8000-00000000ab04"),
            ("expires", "2020-01-01T00:00:00Z"),
            JSON,
            VERSION,
        ],
        "apikey=akidexample-0123456789_abcdef&command=queryasyncjobresult&expires=2020-01-01t00%3a00%3a00z\
         &jobid=0c1d2e3f-0000-4000-8000-00000000ab04&response=json&signatureversion=3",
    ),
];

#[test]
fn cloudstacks_vectors_are_signed_as_queries_and_as_forms() {
    for (parameters, expected) in CLOUDSTACK {
        let mut query = Request::get("api", "/").query_secret("apiKey", "api-key", Encoding::Plain);
        let mut form = vec![("apiKey".to_owned(), vec![Part::secret("api-key", Encoding::Url)])];
        for (name, value) in parameters {
            query = query.query(name, value);
            form.push(((*name).to_owned(), vec![Part::bytes(*value)]));
        }
        let query = query.sign_query("secret-key");
        let (_, parts) = query.query_so_far().last().unwrap();
        assert_eq!(data(signed(&parts[0]), API_KEY), expected);
        let fake = FakeCloud::new().on("api POST /", Reply::json(200, "{}"));
        Cloud::new("api").post("/").signed_form(form, "secret-key").send().unwrap().done().unwrap();
        let body = fake.requests().remove(0).body;
        assert_eq!(data(signed(body.last().unwrap()), API_KEY), expected);
    }
}

/// What is signed of a request, and the header with it; the target is the host's.
fn http_signature(request: Request, by: &HttpSignature<'_>, at: u64, target: &str) -> (String, String, String) {
    let fake = FakeCloud::new();
    drop(request.sign_headers(by, Stamp(at)).send());
    let headers = fake.requests().remove(0).headers;
    let header = |name: &str| headers.iter().find(|(other, _)| other == name).map(|(_, parts)| parts).unwrap();
    let authorization = header("authorization");
    let data = data(signed(&authorization[1]), "").replace("<target>", target);
    (data, text(header("date")), text(authorization))
}

/// Triton's vectors V2, V3 and V6, which have the headers that its API asks for.
#[test]
fn tritons_vectors_are_signed_byte_for_byte() {
    let (date, at) = ("Tue, 05 May 2026 12:00:00 GMT", 1_777_982_400);
    let key_id = "/demo/keys/94:73:09:fc:c1:0a:6c:7e:fc:15:09:25:c4:25:d7:08";
    let by = HttpSignature { key: "account-key", key_id, algorithm: Algorithm::RsaSha256 };
    let tags = "/demo/machines/b6979942-7d5d-4fe6-a2ec-b812e950625a/tags";
    for (method, template, target) in [
        (Method::Get, "/demo/machines", "/demo/machines?limit=1000&offset=0"),
        (Method::Post, tags, tags),
        (Method::Get, "/demo/machines", "/demo/machines?as-role=ops,deploy"),
    ] {
        let verb = method_name(method);
        let (data, sent, authorization) = http_signature(Request::new(method, "cloudapi", template), &by, at, target);
        assert_eq!((data, sent.as_str()), (format!("(request-target): {verb} {target}\ndate: {date}"), date));
        let expected =
            format!(r#"Signature keyId="{key_id}",algorithm="rsa-sha256",headers="(request-target) date",signature="#);
        assert_eq!(authorization, format!(r#"{expected}"<signature>""#));
    }
}

/// draft-cavage-http-signatures-12, C.2, without the header that is left out here: a line each, in the order in which `headers` names
/// them, and the `Date` of C.
#[test]
fn the_basic_test_of_the_draft_is_signed_line_by_line() {
    let by = HttpSignature { key: "test", key_id: "Test", algorithm: Algorithm::RsaSha256 };
    let (target, at) = ("/foo?param=value&pet=dog", 1_388_957_500);
    let (data, date, authorization) = http_signature(Request::post("example", "/foo"), &by, at, target);
    let draft =
        "(request-target): post /foo?param=value&pet=dog\nhost: example.com\ndate: Sun, 05 Jan 2014 21:31:40 GMT";
    assert_eq!(data, draft.replace("host: example.com\n", ""));
    assert_eq!(date, "Sun, 05 Jan 2014 21:31:40 GMT");
    assert!(authorization.starts_with(r#"Signature keyId="Test",algorithm="rsa-sha256",headers=""#), "{authorization}");
}
