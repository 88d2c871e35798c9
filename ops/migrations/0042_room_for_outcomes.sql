-- The outcome of each simulation is written once, many of them in one transaction. A page then needs room for a second
-- version of each of its rows; without it, the new version is in another page and every index gets another entry.
ALTER TABLE simulations SET (fillfactor = 50);
