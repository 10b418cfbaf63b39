//! Whatever the API server answers: what is told of it, and that nothing is lost.

use super::*;

/// What somebody else keeps in the same ConfigMap.
const OTHER: (&str, &str) = ("other", "kept as it is");

fn shared() -> Shared {
    Server::new(Some([OTHER].map(|(key, text)| (key.to_owned(), text.to_owned())).into()))
}

/// What becomes of the next tries to tell of a component, and how long one takes.
async fn told(server: &Shared, method: Method, fault: Fault) -> (PeersError, Duration) {
    let one = peers(server, "/provider", None);
    server.lock().fault = Some((method, fault));
    let begun = Instant::now();
    let error = one.tell(&[refused("a")]).await.unwrap_err();
    let took = begun.elapsed();
    server.lock().fault = None;
    (error, took)
}

/// Somebody else's entry is what it was, and what could not be told is told when the server answers again.
async fn nothing_is_lost(server: &Shared) {
    let one = peers(server, "/provider", None);
    let entry = one.tell(&[refused("a")]).await.unwrap();
    assert_eq!((entry.why("a"), entry.refused.iter().count()), (Some("it crashed"), 1));
    assert_eq!(one.read().await.unwrap(), entry);
    assert_eq!(server.lock().data.as_ref().unwrap()[OTHER.0], OTHER.1);
}

#[tokio::test]
async fn a_right_that_is_missing_is_for_the_operator_with_the_way_out_and_other_failures_pass() {
    let forbidden = r#"configmaps "wasm-ccm-components" is forbidden: User "ccm" cannot do that"#;
    for (method, what) in [(Method::GET, "to get"), (Method::PATCH, "to write")] {
        for (code, text, is_for_the_operator, way_out) in [
            (403, forbidden, true, "; apply your overlay again (manifests/base/rbac.yaml has the right)"),
            (403, "the webhook says no", false, ""),
            (500, "etcd is away", false, ""),
            (429, "slower", false, ""),
        ] {
            let server = shared();
            let (error, _) = told(&server, method.clone(), Fault::Status(code, text)).await;
            let says = error.to_string();
            let place = format!("{what} the ConfigMap kube-system/wasm-ccm-components failed: ");
            assert!(says.starts_with(&place) && says.contains(text) && says.ends_with(way_out), "{code}: {says}");
            assert_eq!(says.contains("overlay"), is_for_the_operator, "{code}: {says}");
            assert_eq!(error.is_for_the_operator(), is_for_the_operator, "{code}");
            assert_eq!(server.lock().writes, 0);
            nothing_is_lost(&server).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_waited_for_no_longer_than_5_s_and_what_it_has_written_is_not_written_again() {
    for (method, what) in [(Method::GET, "to get"), (Method::PATCH, "to write")] {
        let server = shared();
        let (error, took) = told(&server, method.clone(), Fault::Silence).await;
        let says = format!("{what} the ConfigMap kube-system/wasm-ccm-components failed: no answer within 5s");
        assert_eq!((error.to_string(), took), (says, Duration::from_secs(5)));
        assert!(!error.is_for_the_operator());
        let written = u32::from(method == Method::PATCH);
        assert_eq!(server.lock().writes, written, "the write had its effect, the answer was lost");
        nothing_is_lost(&server).await;
        assert_eq!(server.lock().writes, 1);
    }
}

#[tokio::test]
async fn a_config_map_that_goes_between_the_read_and_the_write_is_told_as_one_that_is_missing() {
    let server = shared();
    let (error, _) = told(&server, Method::PATCH, Fault::Deleted).await;
    assert!(matches!(error, PeersError::Missing(_)) && error.is_for_the_operator(), "{error:?}");
    assert!(error.to_string().contains("the ConfigMap is in manifests/base/components.yaml"), "{error}");
    assert_eq!(server.lock().writes, 0);
    // It is applied again.
    server.lock().data = shared().lock().data.take();
    nothing_is_lost(&server).await;
}

#[tokio::test(start_paused = true)]
async fn others_that_write_all_the_time_are_given_up_on_and_keep_what_they_wrote() {
    let server = shared();
    server.lock().others = u32::MAX;
    let error = peers(&server, "/provider", None).tell(&[refused("a")]).await.unwrap_err();
    let says =
        format!("others wrote the ConfigMap kube-system/wasm-ccm-components {ATTEMPTS} times at the same moment");
    assert_eq!((error.to_string(), error.is_for_the_operator()), (says, false));
    {
        let mut server = server.lock();
        assert_eq!((server.writes, &server.data), (0, &Some([(OTHER.0.to_owned(), ATTEMPTS.to_string())].into())));
        server.others = 0;
        server.data = shared().lock().data.take();
    }
    nothing_is_lost(&server).await;
}

#[tokio::test]
async fn an_entry_that_somebody_broke_is_written_anew_and_no_other_one_with_it() {
    for text in ["", "{", "[]", "null", "\u{0}", r#"{"source":"/provider","refused":7}"#] {
        let server = shared();
        let key = peers(&server, "/provider", None).key.clone();
        server.lock().data.as_mut().unwrap().insert(key, text.to_owned());
        nothing_is_lost(&server).await;
        assert_eq!(server.lock().data.as_ref().unwrap().len(), 2, "{text:?}");
    }
}
