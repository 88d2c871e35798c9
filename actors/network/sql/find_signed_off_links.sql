-- The links that operators have signed off.
SELECT name FROM link_sign_offs
