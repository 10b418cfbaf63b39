//! Picks series out of a page of metrics while it comes: the page of a large cluster is longer than what is worth keeping.

/// No series of ours is longer: what stands in labels is limited.
const MAX_LINE: usize = 16 << 10;

/// Keeps nothing but the line that is just coming.
pub(crate) struct Picker<'a, F> {
    names: &'a [&'a str],
    take: F,
    line: Vec<u8>,
    /// The rest of this line is of no use.
    is_skipping: bool,
    too_long: usize,
}

impl<'a, F: FnMut(&str)> Picker<'a, F> {
    /// `take` gets each series of the metrics `names`, as its line.
    pub(crate) const fn new(names: &'a [&'a str], take: F) -> Self {
        Self { names, take, line: vec![], is_skipping: false, too_long: 0 }
    }

    /// The next part of the page, which can end anywhere.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let whole = piece.strip_suffix(b"\n");
            if !self.is_skipping {
                self.add(whole.unwrap_or(piece));
            }
            if whole.is_some() {
                self.end_line();
            }
        }
    }

    /// The page is over: what came after the last newline is a line as well. Says how many series were left out because they are too long. Of a page
    /// that is cut off, the last line is none: half a number is another number.
    pub(crate) fn finish(mut self) -> usize {
        self.end_line();
        self.too_long
    }

    fn add(&mut self, piece: &[u8]) {
        let room = MAX_LINE - self.line.len();
        self.line.extend_from_slice(piece.get(..piece.len().min(room)).unwrap_or_default());
        let is_wanted = self.may_be_wanted();
        if is_wanted && piece.len() <= room {
            return;
        }
        self.too_long += usize::from(is_wanted);
        self.is_skipping = true;
        self.line.clear();
    }

    fn end_line(&mut self) {
        if !self.is_skipping && !self.line.is_empty() {
            (self.take)(&String::from_utf8_lossy(&self.line));
        }
        self.is_skipping = false;
        self.line.clear();
    }

    /// As far as the line is known.
    fn may_be_wanted(&self) -> bool {
        let line = self.line.as_slice();
        self.names.iter().map(|name| name.as_bytes()).any(|name| match line.strip_prefix(name) {
            Some(rest) => rest.first().is_none_or(|next| matches!(next, b'{' | b' ')),
            None => name.starts_with(line),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(parts: &[&[u8]]) -> (Vec<String>, usize) {
        let mut lines = vec![];
        let mut picker = Picker::new(&["ab", "left"], |line: &str| lines.push(line.to_owned()));
        for part in parts {
            picker.read(part);
        }
        let too_long = picker.finish();
        (lines, too_long)
    }

    #[test]
    fn only_series_of_the_metrics_are_taken_wherever_a_part_ends() {
        let page = b"# HELP ab x\nab{x=\"1\"} 1\nabc 2\n\nab_total 3\nleft 4\na\nleft{} 5";
        let wanted = ["ab{x=\"1\"} 1", "left 4", "left{} 5"];
        for size in 1..=page.len() {
            let parts: Vec<&[u8]> = page.chunks(size).collect();
            let (lines, too_long) = picked(&parts);
            let lines: Vec<_> = lines.into_iter().filter(|line| line != "a").collect();
            assert_eq!((lines, too_long), (wanted.map(str::to_owned).to_vec(), 0), "{size}");
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept_and_counts_where_it_is_of_the_metrics() {
        let long = [b'x'; MAX_LINE];
        let (lines, too_long) =
            picked(&[b"ab{a=\"", &long, &long, b"\"} 1\nother{a=\"", &long, &long, b"\"} 1\nab 2\n"]);
        assert_eq!((lines, too_long), (vec!["ab 2".to_owned()], 1));
        let mut picker = Picker::new(&["ab"], |_: &str| {});
        for _ in 0..10 {
            picker.read(b"ab{a=\"");
            picker.read(&long);
            assert!(picker.line.capacity() <= 2 * MAX_LINE, "{}", picker.line.capacity());
        }
    }
}
