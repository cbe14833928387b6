-- SPDX-License-Identifier: MIT
-- A shop: tables with indexes, filled by recursion, asked and changed.
PRAGMA cache_size = 400;
PRAGMA journal_mode = memory;
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, town TEXT);
CREATE TABLE item(id INTEGER PRIMARY KEY, title TEXT, price INTEGER);
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer REFERENCES customer,
	item REFERENCES item, day INTEGER, n INTEGER, note TEXT);

BEGIN;
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 5000)
INSERT INTO customer SELECT i,
	printf('%s-%d', substr('annaberndclaradoraemil', 1 + i % 17, 5), i),
	printf('town %02d', i * 7919 % 61) FROM c;
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000)
INSERT INTO item SELECT i, hex(i * 2654435761 % 4294967296) || ' ' ||
	replace(printf('%.*c', i % 40, 'x'), 'x', 'ab'), i * 31 % 977 FROM c;
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 90000)
INSERT INTO sale SELECT i, 1 + i * 7 % 5000, 1 + i * 13 % 2000, i / 300,
	1 + i % 5, CASE WHEN i % 3 THEN NULL ELSE printf('note %d', i) END
	FROM c;
COMMIT;

CREATE INDEX sale_customer ON sale(customer, day);
CREATE INDEX sale_item ON sale(item);
CREATE INDEX customer_town ON customer(town);
ANALYZE;

SELECT town, count(*), sum(n * price) FROM sale
	JOIN customer ON customer.id = sale.customer
	JOIN item ON item.id = sale.item GROUP BY town ORDER BY 3 DESC LIMIT 10;
SELECT name, group_concat(title, '; ') FROM customer
	JOIN sale ON sale.customer = customer.id
	JOIN item ON item.id = sale.item
	WHERE town LIKE 'town 1%' GROUP BY customer.id ORDER BY length(2) LIMIT 20;
SELECT day, total, avg(total) OVER (ORDER BY day ROWS 6 PRECEDING)
	FROM (SELECT day, sum(n) AS total FROM sale GROUP BY day) LIMIT 30;
SELECT json_group_array(json_object('id', id, 'note', note, 'n', n))
	FROM sale WHERE note IS NOT NULL AND id < 9000;
SELECT upper(name), instr(name, 'an'), replace(name, '-', '_') FROM customer
	ORDER BY town DESC, name COLLATE NOCASE LIMIT 500;

BEGIN;
UPDATE item SET price = price + 5 WHERE title LIKE '%abab%';
DELETE FROM sale WHERE day < 60;
INSERT INTO sale(customer, item, day, n, note)
	SELECT customer, item, day + 400, n + 1, note || ' again' FROM sale
	WHERE id % 4 = 0;
COMMIT;
CREATE VIRTUAL TABLE text USING fts5(title);
INSERT INTO text SELECT title || ' ' || id FROM item;
SELECT count(*) FROM text WHERE text MATCH 'ab* OR 5*';
PRAGMA integrity_check;
VACUUM;
SELECT count(*), sum(length(note)) FROM sale;
