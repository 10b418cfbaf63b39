//! A page as the cache has it: a line for each droplet, its parts between tabs. It has a third of the bytes of JSON, and what looks
//! for a name among thousands copies nothing.

use crate::api::droplets::droplet::{Droplet, Interface, Named, Networks, Region};

/// All but the VPC.
const PARTS: usize = 8;

pub(super) fn write(droplets: &[Droplet]) -> Vec<u8> {
    let mut page = String::new();
    for droplet in droplets {
        let Named { id, name, addresses } = droplet.named();
        page.push_str(&id.to_string());
        let parts = [name, &droplet.status, &droplet.size_slug, &droplet.region.slug];
        let parts = parts.into_iter().chain(addresses.map(Option::unwrap_or_default));
        for part in parts.chain([droplet.vpc_uuid.as_str()]) {
            page.push('\t');
            page.extend(part.chars().filter(|letter| !matches!(letter, '\t' | '\n')));
        }
        page.push('\n');
    }
    page.into_bytes()
}

/// Rows of a page; none of one that somebody else has written.
pub(super) fn rows(page: &[u8]) -> impl Iterator<Item = Row<'_>> {
    str::from_utf8(page).unwrap_or_default().lines().filter_map(Row::read)
}

/// A droplet.
pub(super) struct Row<'a> {
    id: u64,
    /// Name, status, size, region, and the addresses of [`Named`].
    parts: [&'a str; PARTS - 1],
    /// Empty in a page of a component that wrote none.
    vpc: &'a str,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut found = line.split('\t');
        let id = found.next()?.parse().ok()?;
        let mut parts = [""; PARTS - 1];
        for part in &mut parts {
            *part = found.next()?;
        }
        Some(Self { id, parts, vpc: found.next().unwrap_or_default() })
    }

    pub(super) fn named(&self) -> Named<'a> {
        let [name, _, _, _, addresses @ ..] = self.parts;
        Named { id: self.id, name, addresses: addresses.map(|address| (!address.is_empty()).then_some(address)) }
    }

    pub(super) fn droplet(&self) -> Droplet {
        let [name, status, size_slug, slug, private, public, v6] = self.parts.map(str::to_owned);
        let interface = |ip_address, kind: &str| Interface { ip_address, kind: kind.to_owned() };
        let v4 = vec![interface(private, "private"), interface(public, "public")];
        let networks = Networks { v4, v6: vec![interface(v6, "public")] };
        let vpc_uuid = self.vpc.to_owned();
        Droplet { id: self.id, name, status, size_slug, region: Region { slug }, networks, vpc_uuid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_droplet_is_read_as_it_was_written_but_for_what_nobody_asks_for() {
        let read = |text: &str| serde_json::from_str::<Droplet>(text).expect("a droplet");
        let full = read(
            r#"{"id": 7, "name": "N\t7\n", "status": "off", "size_slug": "s-1vcpu", "region": {"slug": "fra1"}, "vpc_uuid": "v-1", "networks": {
                "v4": [{"ip_address": "203.0.113.7", "type": "public"}, {"ip_address": "10.0.0.7", "type": "private"},
                       {"ip_address": "10.0.0.8", "type": "private"}],
                "v6": [{"ip_address": "2604:a880::7", "type": "public"}]}}"#,
        );
        let page = write(&[full.clone(), read(r#"{"id": 8}"#)]);
        let again: Vec<Droplet> = rows(&page).map(|row| row.droplet()).collect();
        let [seven, eight] = again.as_slice() else { panic!("{again:?}") };
        let state = |droplet: &Droplet| {
            (
                droplet.id,
                droplet.status.clone(),
                droplet.size_slug.clone(),
                droplet.region.clone(),
                droplet.vpc_uuid.clone(),
            )
        };
        assert_eq!((seven.name.as_str(), state(seven)), ("N7", state(&full)));
        assert_eq!(seven.named().addresses, full.named().addresses);
        assert_eq!(eight.named(), Named { id: 8, name: "", addresses: [None; 3] });
        let named: Vec<Named<'_>> = rows(&page).map(|row| row.named()).collect();
        assert_eq!(named, [seven.named(), eight.named()]);
    }

    #[test]
    fn a_page_without_vpcs_is_read_as_well() {
        let page = b"7\tn\toff\ts-1\tfra1\t\t203.0.113.7\t\n";
        let vpcs: Vec<_> = rows(page).map(|row| row.droplet()).map(|droplet| (droplet.id, droplet.vpc_uuid)).collect();
        assert_eq!(vpcs, [(7, String::new())]);
    }

    #[test]
    fn what_is_no_row_is_left_out() {
        let pages: [&[u8]; 4] = [b"", b"[]", b"7\tshort\n", b"\xff\n"];
        assert!(pages.iter().all(|page| rows(page).next().is_none()));
    }
}
