//! Reads what `/metrics` says, as a scraper does: so that who tells of a process and its metrics cannot differ.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The labels of one series.
type Labels<'t> = Vec<(&'t str, Cow<'t, str>)>;

/// A page of metrics, read once: dozens of figures are asked for, and there can be megabytes of series. A series with a time is left out: the host
/// writes none.
pub struct Figures<'t>(HashMap<&'t str, Vec<(Labels<'t>, f64)>>);

impl<'t> Figures<'t> {
    /// Reads all series but the parts of histograms, which are most of them and on no page.
    #[must_use]
    pub fn read(text: &'t str) -> Self {
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for (name, labels, value) in text.lines().filter_map(series) {
            all.entry(name).or_default().push((labels, value));
        }
        Self(all)
    }

    /// All series of a metric.
    pub fn series(&self, name: &str) -> impl Iterator<Item = &(Labels<'t>, f64)> {
        self.0.get(name).into_iter().flatten()
    }

    /// The sum of a metric over the series that have all of these labels; 0 where there is none.
    #[must_use]
    pub fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        // Not `sum`: that of nothing is -0.
        self.series(name).filter(|(labels, _)| has(labels, wanted)).fold(0.0, |sum, (_, value)| sum + *value)
    }

    /// The value of the one series that has all of these labels.
    #[must_use]
    pub fn one(&self, name: &str, wanted: &[(&str, &str)]) -> Option<f64> {
        self.series(name).find(|(labels, _)| has(labels, wanted)).map(|(_, value)| *value)
    }

    /// The sums of a metric by some of its labels, in the order of their values.
    #[must_use]
    pub fn by<const N: usize>(&self, name: &str, labels: [&str; N]) -> BTreeMap<[Cow<'t, str>; N], f64> {
        let mut sums = BTreeMap::new();
        for (of, value) in self.series(name) {
            let key = labels.map(|label| label_of(of, label).clone());
            *sums.entry(key).or_default() += *value;
        }
        sums
    }
}

fn has(labels: &Labels<'_>, wanted: &[(&str, &str)]) -> bool {
    wanted.iter().all(|(name, value)| *label_of(labels, name) == **value)
}

fn label_of<'l, 't>(labels: &'l Labels<'t>, wanted: &str) -> &'l Cow<'t, str> {
    const NONE: &Cow<'static, str> = &Cow::Borrowed("");
    labels.iter().find(|(name, _)| *name == wanted).map_or(NONE, |(_, value)| value)
}

/// A line of a page of metrics; none where it is about something else, or part of a histogram.
fn series(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    if name.ends_with("_bucket") {
        return None;
    }
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (vec![], rest),
    };
    Some((name, labels, value.trim().parse().ok()?))
}

/// `a="x",b="y"} 1` in its labels and what comes after them.
fn labels(text: &str) -> Option<(Labels<'_>, &str)> {
    let (mut labels, mut rest) = (vec![], text);
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(value) = rest.strip_prefix('}') {
            return Some((labels, value));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = quoted_value(quoted)?;
        labels.push((name, value));
        rest = after;
    }
}

/// What stands before the quotation mark that ends a value, and what comes after that.
fn quoted_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    let (plain, rest) = text.split_at(end);
    if let Some(rest) = rest.strip_prefix('"') {
        return Some((Cow::Borrowed(plain), rest));
    }
    let mut value = plain.to_owned();
    let mut letters = rest.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some((Cow::Owned(value), letters.as_str())),
            '\\' => value.push(match letters.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP depth Objects, {odd} "help".
# TYPE depth gauge
depth{name="service"} 3
depth{name="Nodes"} 4
depth_of_others{name="Nodes"} 9
alone 7
seconds_bucket{le="1"} 5
loads_total{source="a \"b\" \\ c,d=}\n",result="taken"} 1
loads_total{source="x",result="taken"} 2
loads_total{source="x",result="rejected"} 0.5
"#;

    #[test]
    fn series_are_summed_by_their_labels_and_none_of_another_metric_is_among_them() {
        let figures = Figures::read(TEXT);
        assert_eq!((figures.sum("depth", &[]), figures.sum("alone", &[]), figures.sum("dep", &[])), (7.0, 7.0, 0.0));
        assert_eq!(figures.sum("seconds_bucket", &[]), 0.0, "no page asks for it");
        assert_eq!(
            (figures.one("depth", &[("name", "Nodes")]), figures.one("depth", &[("name", "x")])),
            (Some(4.0), None)
        );
        assert_eq!(figures.sum("loads_total", &[("source", "x"), ("result", "taken")]), 2.0);
        let by: Vec<_> = figures.by("loads_total", ["source"]).into_iter().collect();
        let odd = "a \"b\" \\ c,d=}\n";
        assert_eq!(by, [([Cow::Borrowed(odd)], 1.0), ([Cow::Borrowed("x")], 2.5)]);
    }

    #[test]
    fn what_is_no_series_is_left_out() {
        for text in [
            "depth{",
            "depth{name",
            "depth{name=\"x",
            "depth{name=\"x\\",
            "depth{name=\"x\"} y",
            "depth",
            "depth x",
            "depth 1 1700000000",
        ] {
            assert_eq!(Figures::read(text).series("depth").count(), 0, "{text}");
        }
    }
}
