//! Accounts with other pages, with machines that a listing leaves out, or with more than one call can list.

use super::*;

const FIRST: &str = "api GET /servers?page=1";
const ALL: &str = "api GET /servers?limit=50&offset=0";
const ODD: &str = "api GET /servers?kind=odd&limit=50&offset=0";

#[derive(Default)]
struct Account {
    /// Pages after the first one, where that is asked for alone.
    further: Option<usize>,
    /// Further calls list the rest.
    unread: bool,
}

impl Machines for Account {
    type Machine = Server;
    const NOUN: &'static str = Servers::NOUN;

    fn id_of(&self, provider_id: &str) -> Result<String, String> {
        Servers.id_of(provider_id)
    }

    fn get(&self, id: &str) -> Request {
        Servers.get(id)
    }

    fn got(&self, answer: Answer) -> Result<Option<Server>, Failure> {
        Servers.got(answer)
    }

    fn all(&self) -> Result<Listed<Server>, Failure> {
        let unread = self.unread.then(|| Failure::pending("the next call reads on"));
        Ok(Listed { unread, ..Servers.all()? })
    }

    fn first_page(&self) -> Result<Option<FirstPage<Server>>, Failure> {
        let Some(further) = self.further else { return Ok(None) };
        let machines = CLOUD.get("/servers").query("page", 1).send()?.ok()?.json_at("/servers")?;
        Ok(Some(FirstPage { machines, further }))
    }

    fn unlisted(&self) -> Result<Vec<Server>, Failure> {
        CLOUD.get("/servers").query("kind", "odd").list(PAGING)
    }

    fn named(&self, name: &str) -> Result<Vec<Server>, Failure> {
        Servers.named(name)
    }

    fn names(&self, server: &Server) -> Vec<String> {
        Servers.names(server)
    }

    fn keys(&self, node: &str) -> Vec<String> {
        Servers.keys(node)
    }

    fn look(&self) -> Request {
        Servers.look()
    }

    fn any(&self, answer: Answer) -> Result<bool, Failure> {
        Servers.any(answer)
    }

    fn instance(&self, server: &Server, need: Need) -> Result<Instance, Failure> {
        Servers.instance(server, need)
    }
}

fn servers(ids: std::ops::RangeInclusive<usize>) -> Vec<String> {
    ids.map(|id| server(&id.to_string(), &format!("n{id}"))).collect()
}

fn nodes(count: usize) -> Vec<Node> {
    (1..=count).map(|id| node("n", &id.to_string())).collect()
}

fn ids(count: usize) -> Vec<String> {
    (1..=count).map(|id| format!("my:///{id}")).collect()
}

fn named(name: &str) -> String {
    format!("api GET /servers?name={name}&limit=50&offset=0")
}

#[test]
fn what_the_first_page_does_not_show_is_asked_for_alone_unless_the_other_pages_are_fewer() {
    for (further, alone) in [(4, true), (3, true), (2, false)] {
        let cloud = FakeCloud::new().on(FIRST, list(&servers(1..=2))).on(ALL, list(&servers(1..=5)));
        let cloud = (3..=5).fold(cloud, |cloud, id| {
            let id = id.to_string();
            cloud.on(&get(&id), one(&server(&id, "n")))
        });
        let account = Account { further: Some(further), ..Account::default() };
        assert_eq!(found_in(&account, &nodes(5), Need::Existence, &[]), ids(5), "{further}");
        let asked =
            if alone { vec![FIRST.to_owned(), get("3"), get("4"), get("5")] } else { vec![FIRST.into(), ALL.into()] };
        assert_eq!(cloud.lines(), asked, "{further}");
    }
}

#[test]
fn the_first_page_is_asked_for_alone_where_no_more_nodes_are_in_question_than_can_be_asked_for_one_by_one() {
    for (count, line) in [(MOST_SINGLE, FIRST), (MOST_SINGLE + 1, ALL)] {
        let cloud = FakeCloud::new().on(line, list(&servers(1..=count)));
        let account = Account { further: Some(9), ..Account::default() };
        assert_eq!(found_in(&account, &nodes(count), Need::Existence, &[]), ids(count));
        assert_eq!(cloud.lines(), [line]);
    }
}

/// Another page may have one of the same name, and a Node must not become the wrong machine.
#[test]
fn a_name_on_the_first_page_is_not_taken_for_the_only_one() {
    let twins = [server("1", "twin"), server("77", "twin")];
    let first: Vec<String> = servers(2..=5).into_iter().chain([twins[0].clone()]).collect();
    let cloud = FakeCloud::new().on(FIRST, list(&first)).on(&named("twin"), list(&twins));
    let mut asked = nodes(5);
    asked[0] = node("twin", "");
    let account = Account { further: Some(9), ..Account::default() };
    let words = found_in(&account, &asked, Need::Metadata, &[]);
    assert!(words[0].contains("servers 1, 77 have the name"), "{}", words[0]);
    assert_eq!(words[1..], ids(5)[1..]);
    assert_eq!(cloud.lines(), [FIRST.to_owned(), named("twin")]);
}

#[test]
fn what_listings_leave_out_is_asked_for_only_where_somebody_is_missing() {
    let cloud = FakeCloud::new().on(ALL, list(&servers(1..=4))).on(ODD, list(&servers(5..=5)));
    assert_eq!(found_in(&Account::default(), &nodes(5), Need::Existence, &[]), ids(5));
    assert_eq!(cloud.lines(), [ALL, ODD]);
    let cloud = FakeCloud::new().on(ALL, list(&servers(1..=5)));
    assert_eq!(found_in(&Account::default(), &nodes(5), Need::Existence, &[]), ids(5));
    assert_eq!(cloud.lines(), [ALL]);
}

#[test]
fn whom_the_calls_so_far_have_not_read_waits_for_the_next_one_and_costs_no_question() {
    let cloud = FakeCloud::new().on(ALL, list(&servers(1..=3)));
    let account = Account { unread: true, ..Account::default() };
    let mut asked = nodes(5);
    asked[4] = node("by-name", "");
    let words = found_in(&account, &asked, Need::Existence, &[]);
    assert_eq!(words[..3], ids(3));
    let waits = ["server 4 of node n: the next call reads on", "server of node by-name: the next call reads on"];
    assert_eq!(words[3..], waits);
    assert_eq!(cloud.lines(), [ALL]);
}

/// The cloud finds names, and no addresses: these are in the listing, and in what that leaves out.
#[test]
fn all_names_that_the_cloud_does_not_find_are_looked_up_in_one_whole_listing() {
    let asked = ["n1", "n9", "nobody"].map(|name| node(name, ""));
    let script = |cloud: FakeCloud| asked.iter().fold(cloud, |cloud, node| cloud.on(&named(&node.name), list(&[])));
    let cloud = script(FakeCloud::new().on(ALL, list(&servers(1..=2))).on(ODD, list(&servers(9..=9))));
    let words = found_in(&Account::default(), &asked, Need::Metadata, &[]);
    assert_eq!(words[..2], ["my:///1", "my:///9"]);
    assert!(words[2].contains("no server has the name or an address"), "{}", words[2]);
    assert_eq!(cloud.lines(), [named("n1"), ALL.into(), ODD.into(), named("n9"), named("nobody")]);
    // While that is not whole, it says of nobody what machine it is: another one may have the name.
    let cloud = script(FakeCloud::new().on(ALL, list(&servers(1..=2))));
    let account = Account { unread: true, ..Account::default() };
    for (node, words) in asked.iter().zip(found_in(&account, &asked, Need::Metadata, &[])) {
        assert_eq!(words, format!("server of node {}: the next call reads on", node.name));
    }
    assert_eq!(cloud.lines(), [named("n1"), ALL.into(), named("n9"), named("nobody")]);
}

#[test]
fn a_machine_that_two_answers_show_is_one_and_two_of_one_name_are_none() {
    let machine = |id: &str, name: &str| Server { id: id.to_owned(), name: name.to_owned(), zone: "z".to_owned() };
    let listing = Listing::new(&Servers).with(vec![machine("1", "web")]).with(vec![machine("1", "web")]);
    assert_eq!(listing.of_name("web").map(Item::id), Some("1".to_owned()));
    let listing = listing.with(vec![machine("2", "web")]);
    assert_eq!(listing.of_name("web").map(Item::id), None);
}
