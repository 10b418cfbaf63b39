use std::time::Duration;

use ccm_sim_digitalocean::{Droplet, DropletStatus};
use serde_json::Value;

use crate::client::{Client, client};

async fn names(api: &Client, query: &str) -> Vec<String> {
    let (status, body) = api.get(&format!("/v2/droplets?{query}")).await;
    assert_eq!(status, 200, "{body}");
    body["droplets"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn pages_link_to_each_other_at_another_host() {
    let api = client(|_| ()).await;
    for id in 4..=5 {
        api.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    let base = "https://api.digitalocean.com/v2/droplets";
    let page = async |page: usize| api.get(&format!("/v2/droplets?page={page}&per_page=2")).await.1;
    let links = |page: &Value| page["links"].to_string();
    let link = |page: usize| format!("{base}?page={page}&per_page=2");
    let (first, second, third) = (page(1).await, page(2).await, page(3).await);
    assert_eq!(links(&first), format!(r#"{{"pages":{{"last":"{}","next":"{}"}}}}"#, link(3), link(2)));
    assert_eq!(second["links"]["pages"]["prev"], *link(1));
    assert_eq!(second["links"]["pages"]["next"], *link(3));
    assert_eq!(links(&third), format!(r#"{{"pages":{{"first":"{}","prev":"{}"}}}}"#, link(1), link(2)));
    assert_eq!((third["droplets"].as_array().unwrap().len(), &third["meta"]["total"]), (1, &Value::from(5)));
    assert_eq!(links(&api.get("/v2/droplets?per_page=200").await.1), "{}");
    let (_, beyond) = api.get("/v2/droplets?page=9").await;
    assert!(beyond["droplets"].as_array().unwrap().is_empty());
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn droplets_are_found_by_name_tag_and_kind() {
    let api = client(|_| ()).await;
    api.cloud.put_droplet(Droplet { gpu: true, ..Droplet::new(9, "gpu-1") });
    api.cloud.put_droplet(Droplet { tags: vec!["worker".to_owned()], ..Droplet::new(8, "Web-1") });
    for (query, expected) in [
        ("", vec!["node-1", "node-2", "node-3", "Web-1"]),
        ("name=WEB-1", vec!["Web-1"]),
        ("name=web", vec![]),
        ("tag_name=worker", vec!["Web-1"]),
        ("type=gpus", vec!["gpu-1"]),
        ("type=droplets&name=gpu-1", vec![]),
    ] {
        assert_eq!(names(&api, query).await, expected, "{query}");
    }
    assert_eq!(api.get("/v2/droplets/9").await.1["droplet"]["name"], "gpu-1", "what no listing shows is there");
    for query in ["tag_name=worker&name=a", "tag_name=worker&type=gpus"] {
        assert_eq!(api.get(&format!("/v2/droplets?{query}")).await.0, 422, "{query}");
    }
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn a_listing_is_late_and_a_get_is_not() {
    let api = client(|settings| settings.listing_lag = Duration::from_secs(10)).await;
    assert_eq!(names(&api, "").await, [""; 0]);
    api.cloud.advance(Duration::from_secs(10));
    assert_eq!(names(&api, "").await, ["node-1", "node-2", "node-3"]);
    api.cloud.put_droplet(Droplet { status: DropletStatus::Off, ..Droplet::new(1, "renamed") });
    assert!(api.cloud.remove_droplet(2));
    let id = api.create_on_droplet_three().await;
    assert_eq!(names(&api, "").await, ["node-1", "node-2", "node-3"]);
    assert_eq!(api.get("/v2/droplets/1").await.1["droplet"]["status"], "off");
    assert_eq!(api.get("/v2/droplets/2").await.0, 404);
    assert_eq!(api.get("/v2/load_balancers").await.1["meta"]["total"], 0);
    assert_eq!(api.get(&format!("/v2/load_balancers/{id}")).await.0, 200);
    api.cloud.advance(Duration::from_secs(10));
    assert_eq!(names(&api, "").await, ["renamed", "node-3"]);
    assert_eq!(api.get("/v2/load_balancers").await.1["load_balancers"][0]["id"], *id);
    api.cloud.check().unwrap();
}

#[tokio::test]
async fn three_thousand_droplets_are_listed_in_fifteen_pages() {
    let api = client(|_| ()).await;
    for id in 4..=3_000 {
        api.cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    let mut pages = 0;
    loop {
        pages += 1;
        let (_, page) = api.get(&format!("/v2/droplets?per_page=200&page={pages}")).await;
        if page["links"]["pages"].get("next").is_none() {
            break;
        }
    }
    assert_eq!(pages, 15);
    api.cloud.check().unwrap();
}
