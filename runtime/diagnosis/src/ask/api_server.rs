//! The API server: where it is, who asks, and how long an answer may take.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_apiserver::{api_error_text, lacks_right};
use kube::Client;
use kube::api::{ListParams, ObjectList};
use kube::core::Request;
use serde::de::DeserializeOwned;

/// How long one answer of the API server may take.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// Objects per page of a list. A Node with its images is up to 30 KiB of text.
const PAGE: u32 = 250;

/// How to reach the API server, as the flags say it.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
}

/// An API server that can be asked.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Its address and where that is from, without a password that stands in it.
    pub(crate) place: String,
}

impl Access {
    /// A client. Asks nothing yet.
    ///
    /// # Errors
    ///
    /// Names the flag, and says why it cannot be used.
    pub(crate) async fn connect(&self) -> Result<Cluster> {
        let way = ccm_apiserver::config(self.kubeconfig.as_deref(), self.master.as_deref()).await?;
        let (scheme, host) =
            (way.cluster_url.scheme_str().unwrap_or("https"), way.cluster_url.host().unwrap_or_default());
        let port = way.cluster_url.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        let place = format!("{scheme}://{host}{port} ({})", self.source());
        let client = Client::try_from(way).context("the API server's address or credentials cannot be used")?;
        Ok(Cluster { client, place })
    }

    /// Where address and credentials are from.
    fn source(&self) -> String {
        match (&self.kubeconfig, &self.master) {
            (_, Some(_)) => "--master".to_owned(),
            (Some(file), None) => format!("--kubeconfig {}", file.display()),
            (None, None) => "the service account of the pod".to_owned(),
        }
    }

    /// What to do when nobody answers there.
    pub(crate) const fn way_out() -> &'static str {
        "check the address in --kubeconfig or --master, the network, and the CA certificate of the kubeconfig"
    }
}

/// An answer of the API server, or why there is none.
pub(crate) async fn answered<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if lacks_right(&status) => Err(status.message),
        Ok(Err(error)) => Err(api_error_text(&error)),
        Err(_elapsed) => Err(format!("no answer within {ANSWER:?}")),
    }
}

/// All objects of a list, page by page, so that no page takes too long.
///
/// # Errors
///
/// The API server does not give one of the pages: why.
pub(crate) async fn all<T>(client: &Client, path: &str, fields: Option<&str>) -> Result<Vec<T>, String>
where
    T: Clone + DeserializeOwned,
{
    let mut objects = vec![];
    each(client, path, fields, |object| objects.push(object)).await?;
    Ok(objects)
}

/// The same, for who keeps few of them.
///
/// # Errors
///
/// The API server does not give one of the pages: why.
pub(crate) async fn each<T>(
    client: &Client,
    path: &str,
    fields: Option<&str>,
    mut take: impl FnMut(T),
) -> Result<(), String>
where
    T: Clone + DeserializeOwned,
{
    let request = Request::new(path);
    let mut page = ListParams { field_selector: fields.map(ToOwned::to_owned), ..ListParams::default() }.limit(PAGE);
    loop {
        let asked = request.list(&page).map_err(|error| error.to_string())?;
        let list: ObjectList<T> = answered(client.request(asked)).await?;
        list.items.into_iter().for_each(&mut take);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}
