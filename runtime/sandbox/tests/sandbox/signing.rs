//! The vectors of the clouds' documentation, signed from inside a guest: what arrives is what other programs made.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use crate::cloud::{Asked, Cloud, ok};
use crate::http::Algorithm;
use crate::rig::{Grants, Scripted};

#[path = "../../../egress/src/signature/tests/keys.rs"]
#[expect(dead_code, reason = "the forms of keys are tested where they are read")]
mod keys;
#[path = "../../../egress/src/signature/tests/vectors.rs"]
mod vectors;

const API_KEY: &str = "AKIDEXAMPLE-0123456789_abcDEF";

/// Index of the vector, and the query of the request.
const CLOUDSTACK_GET: [(usize, &str); 4] = [
    (
        0,
        "apiKey=AKIDEXAMPLE-0123456789_abcDEF&command=listVirtualMachines&expires=2031-02-03T04%3A05%3A06Z&listall=true&name=Worker%2001&projectid=11111111-2222-3333-4444-555555555555&response=json&signatureversion=3&signature=gRnD9fTcKWG16Ipg%2FurQZcsob3c%3D",
    ),
    (
        3,
        "apiKey=AKIDEXAMPLE-0123456789_abcDEF&command=listCapabilities&expires=2031-02-03T04%3A05%3A06%2B0000&response=json&signatureversion=3&signature=t9kKtSMKMcbn3rzqsXWKQrQ%2BeuQ%3D",
    ),
    (
        4,
        "apiKey=AKIDEXAMPLE-0123456789_abcDEF&command=queryAsyncJobResult&jobid=0c1d2e3f-0000-4000-8000-00000000ab04&response=json&signature=9jTxjdaJlpgpsJosQYAiUAIQBpY%3D",
    ),
    (
        5,
        "apiKey=AKIDEXAMPLE-0123456789_abcDEF&command=queryAsyncJobResult&expires=2020-01-01T00%3A00%3A00Z&jobid=0c1d2e3f-0000-4000-8000-00000000ab04&response=json&signatureversion=3&signature=i4aoEgxy0sYv1bkHB4duDXysRic%3D",
    ),
];

/// Index of the vector, and the body of the request.
const CLOUDSTACK_POST: [(usize, &str); 2] = [
    (
        1,
        "algorithm=roundrobin&apiKey=AKIDEXAMPLE-0123456789_abcDEF&cidrlist=10.0.0.0%2F8%2C192.168.1.0%2F24&command=createLoadBalancerRule&expires=2031-02-03T04%3A05%3A06Z&name=a1b2c3d4e5f60718293a4b5c6d7e8f90-tcp-443&networkid=0c1d2e3f-0000-4000-8000-00000000ab02&openfirewall=false&privateport=30443&protocol=tcp&publicipid=0c1d2e3f-0000-4000-8000-00000000ab01&publicport=443&response=json&signatureversion=3&signature=QlRuixDnI1LpoWt56qTs%2BJPNFmo%3D",
    ),
    (
        2,
        "apiKey=AKIDEXAMPLE-0123456789_abcDEF&command=createLBStickinessPolicy&expires=2031-02-03T04%3A05%3A06Z&lbruleid=0c1d2e3f-0000-4000-8000-00000000ab03&methodname=LbCookie&name=sticky+*%C3%BC%2B%2F%3D%26%7E+v1&param[0].name=cookie-name&param[0].value=SRV&param[10].name=mode&param[10].value=insert&param[2].name=nocache&param[2].value=true&response=json&signatureversion=3&signature=0rJVuV324THB3Lk0dUKi6K57UeE%3D",
    ),
];

/// The signature of a vector, over parts of which one is the API key.
fn cloudstack(vector: usize, encoding: &str) -> Value {
    let (before, after) = vectors::CLOUDSTACK[vector].0.split_once(&API_KEY.to_lowercase()).unwrap();
    let key = json!({ "secret": "api-key", "encoding": "url-lower-case" });
    json!({ "sign": "secret-key", "algorithm": "hmac-sha1", "encoding": encoding, "data": [before, key, after] })
}

async fn cloudstack_rig() -> (Cloud, Scripted) {
    let cloud = Cloud::start(|_| ok("{}"));
    let grants = Grants::of(&[("api", cloud.url())]);
    let grants = grants.credential("api-key", API_KEY).credential("secret-key", vectors::CLOUDSTACK_SECRET);
    (cloud, Scripted::new(grants).await)
}

#[tokio::test]
async fn a_signed_query_of_cloudstack_arrives_byte_for_byte() {
    let (cloud, guest) = cloudstack_rig().await;
    let decoded = |value: &str| value.replace("%3A", ":").replace("%20", " ").replace("%2B", "+");
    for (vector, query) in CLOUDSTACK_GET {
        let values = query.split('&').map(|pair| match pair.split_once('=').unwrap() {
            ("apiKey", _) => json!(["apiKey", [{ "secret": "api-key" }]]),
            ("signature", _) => json!(["signature", [cloudstack(vector, "base64")]]),
            (name, value) => json!([name, [decoded(value)]]),
        });
        let request = json!({ "path": "/client/api", "query": values.collect::<Vec<_>>() });
        assert_eq!(guest.send(request).await["status"], 200);
        let [asked] = &cloud.take()[..] else { panic!("vector {vector}") };
        assert_eq!(asked.line, format!("GET /client/api?{query}"));
    }
}

#[tokio::test]
async fn a_signed_form_of_cloudstack_arrives_byte_for_byte() {
    let (cloud, guest) = cloudstack_rig().await;
    for (vector, body) in CLOUDSTACK_POST {
        let (before, rest) = body.split_once(API_KEY).unwrap();
        let (after, _) = rest.split_once("&signature=").unwrap();
        let key = json!({ "secret": "api-key", "encoding": "url" });
        let parts = json!([before, key, after, "&signature=", cloudstack(vector, "base64-percent-encoded")]);
        let form = json!([["content-type", ["application/x-www-form-urlencoded"]]]);
        let request = json!({ "method": "post", "path": "/client/api", "headers": form, "body": parts });
        assert_eq!(guest.send(request).await["status"], 200);
        let [asked] = &cloud.take()[..] else { panic!("vector {vector}") };
        assert_eq!((asked.line.as_str(), asked.body.as_str()), ("POST /client/api", body));
        assert_eq!(asked.header("content-type"), Some("application/x-www-form-urlencoded"));
    }
}

const DATE: &str = "Tue, 05 May 2026 12:00:00 GMT";

async fn triton_rig(key: &str) -> (Cloud, Scripted) {
    let cloud = Cloud::start(|_| ok("{}"));
    let guest = Scripted::new(Grants::of(&[("api", cloud.url())]).credential("key", key)).await;
    (cloud, guest)
}

/// A request whose header is signed: what stands there after `signature=`.
async fn triton(cloud: &Cloud, guest: &Scripted, algorithm: Algorithm, data: Vec<Value>, line: &str) -> String {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query: Vec<Value> = pairs.map(|(name, value)| json!([name, [value]])).collect();
    let sign = json!({ "sign": "key", "algorithm": algorithm.to_string(), "encoding": "base64", "data": data });
    let headers =
        json!([["date", [DATE]], ["authorization", ["Signature keyId=\"/demo/keys/k\",signature=\"", sign, "\""]]]);
    let request = json!({ "method": method, "path": path, "query": query, "headers": headers });
    let answer = guest.send(request).await;
    assert_eq!(answer["status"], 200, "{answer}");
    let [Asked { headers, .. }] = &cloud.take()[..] else { panic!("{line}") };
    assert!(headers.contains(&("date".to_owned(), DATE.to_owned())), "{headers:?}");
    let (_, authorization) = headers.iter().find(|(name, _)| name == "authorization").unwrap();
    let (start, signature) = authorization.split_once(",signature=").unwrap();
    assert_eq!(start, "Signature keyId=\"/demo/keys/k\"");
    signature.trim_matches('"').to_owned()
}

#[tokio::test]
async fn the_signatures_of_triton_arrive_byte_for_byte() {
    let mut signed_targets = 0;
    for key in [keys::RSA_PKCS1, keys::ED25519_PKCS8_V1] {
        let (cloud, guest) = triton_rig(key).await;
        for (name, _, algorithm, data, signature) in vectors::TRITON.into_iter().filter(|(_, of, ..)| *of == key) {
            let Some((before, rest)) = data.split_once("(request-target): ") else {
                let made = triton(&cloud, &guest, algorithm, vec![json!(data)], "get /demo").await;
                assert_eq!(made, signature, "{name}");
                continue;
            };
            let (line, after) = rest.split_once('\n').map_or((rest, ""), |(line, _)| (line, &rest[line.len()..]));
            let start = format!("{before}(request-target): {} ", line.split(' ').next().unwrap());
            let parts = vec![json!(start), json!({ "target": true }), json!(after)];
            let made = triton(&cloud, &guest, algorithm, parts, line).await;
            if line.contains(',') {
                // The vector has a comma in its query, which arrives percent-encoded: so it is signed.
                let sent = data.replace(',', "%2C").replace("Tue%2C", "Tue,");
                assert_eq!(made, triton(&cloud, &guest, algorithm, vec![json!(sent)], line).await, "{name}");
                let literal = triton(&cloud, &guest, algorithm, vec![json!(data)], line).await;
                assert_eq!(literal, signature, "{name}");
            } else {
                assert_eq!(made, signature, "{name}");
                signed_targets += 1;
            }
        }
    }
    assert_eq!(signed_targets, 3);
}

#[tokio::test]
async fn the_ecdsa_signature_of_triton_is_another_every_time_and_always_the_keys() {
    let point = "BMMQYHFzySuvfP8q7NWPHr904PvnN1BHJK0T2KHu3uzh8gBnRk8+Ym4q/hcAryNRz1aDPrTNDeSV3LENYh4IZ1E=";
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, BASE64_STANDARD.decode(point).unwrap());
    let (data, published) = vectors::TRITON_V8;
    let (cloud, guest) = triton_rig(keys::P256_SEC1).await;
    let made = triton(&cloud, &guest, Algorithm::EcdsaSha256, vec![json!(data)], "get /demo").await;
    for signature in [&made, published] {
        public.verify(data.as_bytes(), &BASE64_STANDARD.decode(signature).unwrap()).unwrap();
    }
    assert_ne!(made, published);
}

#[tokio::test]
async fn a_guest_learns_of_a_key_its_fingerprint_and_its_algorithm() {
    let cases = [
        (keys::RSA_PKCS1, "rsa-sha256", "94:73:09:fc:c1:0a:6c:7e:fc:15:09:25:c4:25:d7:08"),
        (keys::P256_SEC1, "ecdsa-sha256", "b6:26:0b:47:61:d7:e0:23:5d:77:cc:cb:ef:32:52:54"),
        (keys::ED25519_PKCS8_V1, "ed25519", "ae:00:ff:5f:53:61:70:58:65:b4:59:91:29:a8:7a:78"),
    ];
    for (key, algorithm, fingerprint) in cases {
        let (_cloud, guest) = triton_rig(key).await;
        let steps = json!([
            { "key-algorithm": "key" }, { "fingerprint": ["key", "md5"] },
            { "key-algorithm": "token" }, { "fingerprint": ["token", "md5"] }, { "fingerprint": ["other", "md5"] },
        ]);
        let (denied, unknown) = (json!({ "refusal": "denied" }), json!({ "refusal": "unknown" }));
        let wanted = [json!(algorithm), json!(fingerprint), denied.clone(), denied, unknown];
        assert_eq!(guest.run(steps).await, wanted);
    }
}

#[tokio::test]
async fn a_cloud_that_repeats_what_it_was_sent_gives_no_signature_and_no_secret_away() {
    let cloud = Cloud::start(|asked| ok(&json!({ "line": asked.line, "headers": asked.headers }).to_string()));
    let grants = Grants::of(&[("api", cloud.url())]).credential("api-key", API_KEY);
    let guest = Scripted::new(grants.credential("secret-key", vectors::CLOUDSTACK_SECRET)).await;
    let query = json!([["apiKey", [{ "secret": "api-key" }]], ["signature", [cloudstack(0, "base64")]]]);
    let answer = guest.send(json!({ "path": "/client/api", "query": query })).await.to_string();
    for hidden in [API_KEY, vectors::CLOUDSTACK[0].1, vectors::CLOUDSTACK[0].3] {
        assert!(!answer.contains(hidden), "{hidden} in {answer}");
        assert!(answer.contains("\"status\":200"), "{answer}");
    }
    let [asked] = &cloud.take()[..] else { panic!("not asked once") };
    assert!(asked.line.contains(API_KEY) && asked.line.contains(vectors::CLOUDSTACK[0].3), "{}", asked.line);
}
