//! The admission webhook, where one is configured: whether API servers can verify its certificate, and until when. As they do: by the
//! authorities in the configuration and the name of the Service.

use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client};

use super::certificate::{Untrusted, certificates, expiry, has_name, is_trusted};
use super::finding::{Check, Finding, Judgement};
use crate::ask::answered;

/// The webhook of our manifests.
const NAME: &str = "lb-service.wasm-ccm.io";
/// The Secret of our manifests with the certificate.
const SECRET: &str = "wasm-ccm-webhook";
/// The key of it that is read.
const CERTIFICATE: &str = "tls.crt";
/// A certificate that ends sooner was not renewed in time.
const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What to do about a certificate.
const FIX: &str = "renew the certificate: docs/guides/webhook.md; with cert-manager, `kubectl -n kube-system describe certificate wasm-ccm-webhook`";

/// Reads the configuration, and the certificate in the Secret.
pub(super) async fn judge(client: &Client, now: Timestamp) -> Vec<Finding> {
    let check = Check::Webhook;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let parameters = ListParams::default();
    let list = match answered(api.list(&parameters)).await {
        Ok(list) => list.items,
        Err(why) => {
            let fix = "give a kubeconfig that may list ValidatingWebhookConfigurations, such as an administrator's";
            return vec![check.unjudged(format!("whether a webhook is configured is not known: {why}"), fix)];
        }
    };
    let hooks = list.into_iter().flat_map(|configuration| configuration.webhooks.unwrap_or_default());
    let Some(hook) = hooks.into_iter().find(|hook| hook.name == NAME) else {
        return vec![check.good("no admission webhook is configured")];
    };
    let mut findings = vec![authority(&hook, now).about([format!("Webhook {NAME}")])];
    if let Some(service) = &hook.client_config.service {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &service.namespace);
        let about = [format!("Secret {}/{SECRET}", service.namespace)];
        findings.push(
            match answered(secrets.get_opt(SECRET)).await {
                Ok(secret) => served(secret.as_ref(), &hook, now),
                Err(why) => {
                    let fix = "give a kubeconfig that may get this Secret; doctor reads only its certificate";
                    check.unjudged(format!("whether API servers trust the certificate is not known: {why}"), fix)
                }
            }
            .about(about),
        );
    }
    findings
}

/// What stands in the configuration.
fn bundle(hook: &ValidatingWebhook) -> Option<&[u8]> {
    hook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice()).filter(|bundle| !bundle.is_empty())
}

/// What API servers verify the webhook's certificate with. One authority that is valid is enough: those of before may stay.
fn authority(hook: &ValidatingWebhook, now: Timestamp) -> Finding {
    let Some(bundle) = bundle(hook) else {
        return Check::Webhook.wrong(
            "its configuration has no caBundle, so API servers do not trust it: no Service is judged",
            "write your CA into it, or look why cert-manager does not (annotation cert-manager.io/inject-ca-from): docs/guides/webhook.md",
        );
    };
    let ends: Option<Vec<Timestamp>> = certificates(bundle).and_then(|all| all.iter().map(|one| expiry(one)).collect());
    expires("the CA in its configuration", ends.and_then(|ends| ends.into_iter().max()), now)
}

/// What the host shows to API servers.
fn served(secret: Option<&Secret>, hook: &ValidatingWebhook, now: Timestamp) -> Finding {
    let check = Check::Webhook;
    let Some(certificate) = secret.and_then(|secret| secret.data.as_ref()?.get(CERTIFICATE)) else {
        let found = format!("there is no certificate in {CERTIFICATE}: the host cannot answer reviews");
        return check.wrong(found, FIX);
    };
    let chain = certificates(&certificate.0).unwrap_or_default();
    let judged = expires("the certificate", chain.first().and_then(|leaf| expiry(leaf)), now);
    let (Some(leaf), Some(bundle), Some(service)) =
        (chain.first(), bundle(hook).and_then(certificates), &hook.client_config.service)
    else {
        return judged;
    };
    // Its own dates come first.
    if judged.judgement != Judgement::Good {
        return judged;
    }
    let soon = now.checked_add(SOON).unwrap_or(now);
    let name = format!("{}.{}.svc", service.name, service.namespace);
    let found = match (is_trusted(&chain, &bundle, now), is_trusted(&chain, &bundle, soon)) {
        (Err(Untrusted::Expired), _) => "the CA that signed the certificate has expired".to_owned(),
        (Err(Untrusted::Unreadable), _) => "the certificate is of a form that API servers do not take".to_owned(),
        (Err(Untrusted::Stranger), _) => {
            "no CA in the caBundle of the webhook signed the certificate: API servers refuse it".to_owned()
        }
        (Ok(()), Err(_expired)) => "the CA that signed the certificate expires in less than 7 days".to_owned(),
        (Ok(()), Ok(())) if !has_name(leaf, &name) => {
            format!("the certificate is not for {name}, the name that API servers ask for: they refuse it")
        }
        (Ok(()), Ok(())) => return judged,
    };
    check.wrong(found, FIX)
}

fn expires(what: &str, end: Option<Timestamp>, now: Timestamp) -> Finding {
    let check = Check::Webhook;
    let Some(end) = end else {
        return check.wrong(format!("{what} is no PEM certificate"), FIX);
    };
    let left = end.duration_since(now);
    let day = end.strftime("%Y-%m-%d");
    if left.is_negative() {
        check.wrong(format!("{what} expired on {day}"), FIX)
    } else if left < SOON {
        check.wrong(format!("{what} expires on {day}, in less than 7 days"), FIX)
    } else {
        check.good(format!("{what} is valid until {day}"))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::ServiceReference;

    use super::*;

    #[test]
    fn a_certificate_is_told_a_week_before_it_expires() {
        let now: Timestamp = "2026-11-26T10:00:00Z".parse().unwrap();
        for (end, judgement, part) in [
            ("2026-11-26T09:59:59Z", Judgement::Wrong, "expired on 2026-11-26"),
            ("2026-12-03T09:59:59Z", Judgement::Wrong, "expires on 2026-12-03, in less than 7 days"),
            ("2026-12-03T10:00:00Z", Judgement::Good, "valid until 2026-12-03"),
        ] {
            let finding = expires("it", Some(end.parse().unwrap()), now);
            assert_eq!(finding.judgement, judgement, "{end}");
            assert!(finding.found.contains(part), "{finding:?}");
        }
        assert_eq!(expires("it", None, now).judgement, Judgement::Wrong);
    }

    #[test]
    fn one_authority_of_the_bundle_that_is_valid_is_enough() {
        let one = |year| {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
            parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
        };
        let mut hook = ValidatingWebhook { name: NAME.to_owned(), ..ValidatingWebhook::default() };
        for (bundle, judgement) in [
            (one(2020) + &one(2400), Judgement::Good),
            (one(2400) + &one(2020), Judgement::Good),
            (one(2020), Judgement::Wrong),
        ] {
            hook.client_config.ca_bundle = Some(k8s_openapi::ByteString(bundle.into_bytes()));
            assert_eq!(authority(&hook, "2026-11-26T10:00:00Z".parse().unwrap()).judgement, judgement);
        }
    }

    #[test]
    fn a_webhook_that_nobody_can_verify_and_one_without_a_certificate_are_wrong() {
        let hook = ValidatingWebhook { name: NAME.to_owned(), ..ValidatingWebhook::default() };
        assert_eq!(authority(&hook, Timestamp::now()).judgement, Judgement::Wrong);
        for secret in [None, Some(Secret::default())] {
            assert_eq!(served(secret.as_ref(), &hook, Timestamp::now()).judgement, Judgement::Wrong);
        }
    }

    #[test]
    fn a_certificate_for_another_name_than_that_of_the_service_is_told() {
        let key = || rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = rcgen::CertifiedIssuer::self_signed(parameters, key()).unwrap();
        let mut hook = ValidatingWebhook { name: NAME.to_owned(), ..ValidatingWebhook::default() };
        hook.client_config.ca_bundle = Some(k8s_openapi::ByteString(ca.pem().into_bytes()));
        hook.client_config.service =
            Some(ServiceReference { name: "hook".into(), namespace: "kube-system".into(), ..Default::default() });
        for (name, judgement) in [("hook.kube-system.svc", Judgement::Good), ("hook.default.svc", Judgement::Wrong)] {
            let parameters = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
            let leaf = parameters.signed_by(&key(), &ca).unwrap().pem();
            let data = [(CERTIFICATE.to_owned(), k8s_openapi::ByteString(leaf.into_bytes()))].into();
            let secret = Secret { data: Some(data), ..Secret::default() };
            let finding = served(Some(&secret), &hook, Timestamp::now());
            assert_eq!(finding.judgement, judgement, "{finding:?}");
        }
    }
}
