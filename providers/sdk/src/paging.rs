//! Lists that come in pages.
//!
//! A list is whole or an error: a page that fails, a list that has no end and a page that comes twice fail the listing. What is
//! created or deleted meanwhile may still be missing or stand in it, so that a list never proves that something is gone.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::answer::Answer;
use crate::percent;
use crate::record::{Item, Value};
use crate::request::Request;
use crate::session::send_all;
use crate::types::Failure;

/// One page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// How many items the whole list has, if the page says so.
    pub total: Option<usize>,
    next: Option<String>,
}

/// How a cloud cuts lists, and where the answer has what of them.
///
/// ```
/// use ccm_sdk::paging::Paging;
/// use ccm_sdk::types::Failure;
/// use ccm_sdk::{Cloud, Request};
///
/// ccm_sdk::records! {
///     pub struct Machine { pub id: String [id], pub name: String }
/// }
///
/// const CLOUD: Cloud = Cloud::new("api");
/// // {"machines": [{"id": "m-1", "name": "a"}, ...], "meta": {"total": 431}}
/// const MACHINES: Paging = Paging::numbered("page", "per_page", 200).items("/machines").total("/meta/total");
///
/// fn machines() -> Result<Vec<Machine>, Failure> {
///     CLOUD.get("/v2/machines").list(MACHINES)
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Paging {
    shape: Shape,
    items: &'static str,
    total: &'static str,
    links: &'static str,
    sparse: bool,
    max_pages: usize,
    max_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Numbered { page: &'static str, size: &'static str, per_page: Option<usize> },
    Links { next: &'static str },
    Offset { offset: &'static str, limit: &'static str, size: usize },
    Marker { marker: &'static str, limit: &'static str, size: usize },
}

/// A thousand pages of the smallest usual size are more machines than a cluster can have.
const MAX_PAGES: usize = 1_000;

/// Pages asked for at once: their bodies are in memory together.
const AT_ONCE: usize = 16;

impl Paging {
    /// Parameters for the number of the page, from 1, and for its size. The first page tells the total, and the rest is asked
    /// for at once; without a total, a page with fewer items than `per_page`, or than the first, is the last, so `per_page` must not
    /// be more than the cloud gives.
    pub const fn numbered(page: &'static str, size: &'static str, per_page: usize) -> Self {
        Self::new(Shape::Numbered { page, size, per_page: Some(per_page) })
    }

    /// As [`numbered`](Self::numbered), but the first page is asked for without parameters, and its size is that of all:
    /// CloudStack refuses sizes above a limit that nobody can ask for.
    pub const fn counted(page: &'static str, size: &'static str) -> Self {
        Self::new(Shape::Numbered { page, size, per_page: None })
    }

    /// Every page links to the next. Only the query of the link is used, on the path of the request, which must be the link's:
    /// behind a proxy links name hosts that nobody can reach from here.
    ///
    /// `next` is where the answer has it: `/links/pages/next`.
    pub const fn links(next: &'static str) -> Self {
        Self::new(Shape::Links { next })
    }

    /// Parameters for how many items to leave out and how many to give. A page with fewer than `size` is the last, so `size`
    /// must not be more than the cloud gives.
    pub const fn offset(offset: &'static str, limit: &'static str, size: usize) -> Self {
        Self::new(Shape::Offset { offset, limit, size })
    }

    /// Parameters for the id of the last item of the page before, and for how many to give. An empty page is the last: clouds
    /// may give fewer than asked for.
    pub const fn marker(marker: &'static str, limit: &'static str, size: usize) -> Self {
        Self::new(Shape::Marker { marker, limit, size })
    }

    /// Where pages of [`marker`](Self::marker) have links, each with its `rel`: `/servers_links`. One without a link to the `next` is the
    /// last, so that the empty page after it need not be asked for. Links themselves are not followed: behind a proxy they name hosts that
    /// nobody can reach from here.
    #[must_use]
    pub const fn until_no_next(mut self, links: &'static str) -> Self {
        self.links = links;
        self
    }

    /// Where the answer has the items: `/machines`. Without it: the answer is an array.
    #[must_use]
    pub const fn items(mut self, place: &'static str) -> Self {
        self.items = place;
        self
    }

    /// Where the answer says how many items the whole list has: `/meta/total`. For [`numbered`](Self::numbered) and
    /// [`counted`](Self::counted).
    #[must_use]
    pub const fn total(mut self, place: &'static str) -> Self {
        self.total = place;
        self
    }

    /// A page without items at their place is empty, and without a total it tells none. Otherwise such a page may be cut, or of
    /// somebody on the way, and is an error.
    #[must_use]
    pub const fn sparse(mut self) -> Self {
        self.sparse = true;
        self
    }

    /// A longer list is an error. Without it: 1,000 pages.
    #[must_use]
    pub const fn at_most(mut self, pages: usize) -> Self {
        self.max_pages = pages;
        self
    }

    /// A list of [`numbered`](Self::numbered) or [`counted`](Self::counted) pages that has more bytes, as far as its first page
    /// tells, is an error after that page. Pages asked for at once have no more either. Without it: no limit but the host's,
    /// which ends all further reading of the call.
    #[must_use]
    pub const fn within(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    const fn new(shape: Shape) -> Self {
        Self { shape, items: "", total: "", links: "", sparse: false, max_pages: MAX_PAGES, max_bytes: usize::MAX }
    }
}

impl Request {
    /// All items of a list, each once.
    ///
    /// # Errors
    ///
    /// A page failed; the list has too many pages or bytes (`quota`), does not end, or contradicts itself (`retry`).
    pub fn list<T: Item>(self, paging: Paging) -> Result<Vec<T>, Failure> {
        self.list_dated(paging).map(|(items, _)| items)
    }

    /// The same with the header `Date` of the first page: the cloud's own time, before which nothing of the list can have changed
    /// unseen. A shared answer has that of when it was given.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub fn list_dated<T: Item>(self, paging: Paging) -> Result<(Vec<T>, Option<String>), Failure> {
        let mut items = vec![];
        let mut take = |answer: Answer, ids: &mut BTreeSet<String>| {
            let bytes = answer.body().len();
            let Page { items: found, total, next } = answer.page::<T>(paging)?;
            let mut sheet = Sheet { next, total, bytes, ..Sheet::default() };
            for item in found {
                if sheet.note(item.id(), ids) {
                    items.push(item);
                }
            }
            Ok(sheet)
        };
        let (ids, seen) = (BTreeSet::new(), BTreeSet::new());
        let date = Walk { request: self, paging, pages: 0, date: None, ids, seen, take: &mut take }.all()?;
        Ok((items, date))
    }
}

impl Answer {
    /// What a page has, for whoever reads a list in steps of its own.
    ///
    /// # Errors
    ///
    /// As [`json`](Self::json); the page lacks what `paging` says that it has.
    pub fn page<T: Item>(self, paging: Paging) -> Result<Page<T>, Failure> {
        let (answer, mut items) = (self.ok()?, None);
        let (total, next) = answer.around(paging, &mut items)?;
        match items {
            None if !paging.sparse => Err(answer.lacks(paging.items)),
            items => Ok(Page { items: items.unwrap_or_default(), total, next }),
        }
    }

    /// Reads the items, and what stands around them.
    #[inline(never)]
    fn around(&self, paging: Paging, items: &mut dyn Value) -> Result<(Option<usize>, Option<String>), Failure> {
        let (mut total, mut next): (Option<usize>, Option<String>) = (None, None);
        let mut places: Vec<(&'static str, &mut dyn Value)> = vec![(paging.items, items)];
        if !paging.total.is_empty() {
            places.push((paging.total, &mut total));
        }
        if let Shape::Links { next: place } = paging.shape {
            places.push((place, &mut next));
        }
        let mut links: Vec<Link> = vec![];
        if !paging.links.is_empty() {
            places.push((paging.links, &mut links));
        }
        self.read(&mut places)?;
        next = next.or_else(|| links.into_iter().find(|link| link.rel == "next").map(|link| link.rel));
        if total.is_none() && !paging.total.is_empty() && !paging.sparse {
            return Err(self.lacks(paging.total));
        }
        Ok((total, next))
    }
}

crate::records! {
    /// What a page says of another one.
    struct Link { rel: String }
}

/// What the walk needs to know of a page.
#[derive(Debug, Default)]
struct Sheet {
    len: usize,
    bytes: usize,
    last: Option<String>,
    next: Option<String>,
    total: Option<usize>,
    ids: DefaultHasher,
}

impl Sheet {
    /// Whether no page has had this item before.
    #[inline(never)] // once for all types of items
    fn note(&mut self, id: String, known: &mut BTreeSet<String>) -> bool {
        id.hash(&mut self.ids);
        self.len += 1;
        self.last = Some(id.clone());
        known.insert(id)
    }
}

type Query = Vec<(String, String)>;

/// Takes the items of an answer, and notes which there are.
type Take<'a> = &'a mut dyn FnMut(Answer, &mut BTreeSet<String>) -> Result<Sheet, Failure>;

/// Not generic: every type of item would bring a copy.
struct Walk<'a> {
    request: Request,
    paging: Paging,
    pages: usize,
    seen: BTreeSet<u64>,
    date: Option<String>,
    ids: BTreeSet<String>,
    take: Take<'a>,
}

impl Walk<'_> {
    /// The header `Date` of the first page.
    fn all(mut self) -> Result<Option<String>, Failure> {
        self.walk()?;
        Ok(self.date)
    }

    fn walk(&mut self) -> Result<(), Failure> {
        match self.paging.shape {
            Shape::Numbered { page, size, per_page } => self.numbered(page, size, per_page),
            Shape::Links { .. } => {
                let mut sheet = self.page(vec![])?;
                while let Some(link) = sheet.next.filter(|link| !link.is_empty()) {
                    if sheet.len == 0 {
                        return Err(self.wrong("an empty page links to another one"));
                    }
                    let query = self.follow(&link)?;
                    sheet = self.page(query)?;
                }
                Ok(())
            }
            Shape::Offset { offset, limit, size } => {
                let mut start = 0;
                while self.page(vec![number(limit, size), number(offset, start)])?.len >= size {
                    start += size;
                }
                Ok(())
            }
            Shape::Marker { marker, limit, size } => {
                let mut sheet = self.page(vec![number(limit, size)])?;
                while let Some(last) = sheet.last.take_if(|_| self.paging.links.is_empty() || sheet.next.is_some()) {
                    sheet = self.page(vec![number(limit, size), (marker.to_owned(), last)])?;
                }
                Ok(())
            }
        }
    }

    fn numbered(&mut self, page: &str, size: &str, per_page: Option<usize>) -> Result<(), Failure> {
        let query = |at: usize, len: usize| vec![number(page, at), number(size, per_page.unwrap_or(len))];
        let first = self.page(if per_page.is_some() { query(1, 0) } else { vec![] })?;
        let Some(mut total) = first.total else {
            let mut at = 2;
            let mut len = if first.len < per_page.unwrap_or(1) { 0 } else { first.len };
            while len > 0 && len >= first.len {
                len = self.page(query(at, first.len))?.len;
                at += 1;
            }
            return Ok(());
        };
        // A list that shrinks meanwhile gives less than it said first; one that gives less than it ever said is cut.
        let at_once = self.allow_bytes(&first, total)?;
        let (mut collected, mut least, mut at) = (first.len, total, 2);
        while first.len > 0 && (at - 1) * first.len < total {
            self.allow(total.div_ceil(first.len))?;
            let last = total.div_ceil(first.len).min(at + at_once - 1);
            for sheet in self.together((at..=last).map(|at| query(at, first.len)).collect())? {
                collected += sheet.len;
                total = total.max(sheet.total.unwrap_or(0));
                least = least.min(sheet.total.unwrap_or(least));
            }
            at = last + 1;
        }
        if collected < least {
            return Err(self.wrong(&format!("the cloud counts {least} items and gives {collected}")));
        }
        Ok(())
    }

    fn page(&mut self, query: Query) -> Result<Sheet, Failure> {
        let sheets = self.together(vec![query])?;
        sheets.into_iter().next().ok_or_else(|| self.wrong("no answer"))
    }

    fn together(&mut self, queries: Vec<Query>) -> Result<Vec<Sheet>, Failure> {
        self.pages += queries.len();
        self.allow(self.pages)?;
        let requests = queries.into_iter().map(|query| {
            let mut request = self.request.clone();
            request.replace_query(query);
            request
        });
        let mut sheets = vec![];
        for answer in send_all(requests.collect()) {
            let answer = answer?;
            if self.seen.is_empty() && self.date.is_none() {
                self.date = answer.header("date").map(str::to_owned);
            }
            let sheet = (self.take)(answer, &mut self.ids)?;
            if sheet.len > 0 && !self.seen.insert(sheet.ids.finish()) {
                return Err(self.wrong("a page came twice"));
            }
            sheets.push(sheet);
        }
        Ok(sheets)
    }

    /// Before anything is asked for, so that a list that is too long costs little.
    fn allow(&self, pages: usize) -> Result<(), Failure> {
        let (operation, most) = (self.request.operation_name(), self.paging.max_pages);
        if pages > most {
            return Err(Failure::quota(format!("{operation}: the list has more than {most} pages")));
        }
        Ok(())
    }

    /// How many pages like the first one may be asked for at once.
    fn allow_bytes(&self, first: &Sheet, total: usize) -> Result<usize, Failure> {
        let most = self.paging.max_bytes;
        let bytes = first.bytes.saturating_mul(total.div_ceil(first.len.max(1)));
        if first.len < total && bytes > most {
            let operation = self.request.operation_name();
            return Err(Failure::quota(format!("{operation}: the list has some {bytes} bytes, more than {most}")));
        }
        Ok(most.checked_div(first.bytes).unwrap_or(AT_ONCE).clamp(1, AT_ONCE))
    }

    fn follow(&self, link: &str) -> Result<Query, Failure> {
        let path = self.request.path()?;
        query_of(link, &path)
            .ok_or_else(|| self.wrong("the link to the next page leads to another place or is no link"))
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::retry(format!("{}: page {}: {what}", self.request.operation_name(), self.pages))
    }
}

fn number(name: &str, value: usize) -> (String, String) {
    (name.to_owned(), value.to_string())
}

/// The query of a link whose path ends in that of the request; the base URL of the endpoint may have more before it.
fn query_of(link: &str, path: &str) -> Option<Query> {
    let (link, _) = link.split_once('#').unwrap_or((link, ""));
    let (place, query) = link.split_once('?')?;
    let place = place.split_once("://").map_or(place, |(_, rest)| rest);
    let same = |text: &str| percent::decode(text).map(|text| text.trim_end_matches('/').to_owned());
    if !same(place)?.ends_with(&same(path)?) {
        return None;
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((percent::decode(name)?, percent::decode(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests;
