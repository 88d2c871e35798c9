"""KYC checks: cases, custody of what applicants say, evaluation, review, capture sessions (spec 4.1;
contract, section 10).
"""
